package joblog

// NTFS journals names by itself, and a folder can't be flushed.
func syncDir(string) error { return nil }
