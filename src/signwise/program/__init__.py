"""What ``compile`` makes: operations and tensors, their checks, their file and their meaning, with numpy alone."""
