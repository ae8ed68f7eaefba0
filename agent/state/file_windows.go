package state

// SyncDir does nothing: Windows journals file names itself, and cannot open a directory for a sync.
func SyncDir(string) error { return nil }
