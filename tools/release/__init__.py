"""What a release consists of besides the code: how it is built, which licences, which components."""
