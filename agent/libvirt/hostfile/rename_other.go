//go:build !linux

package hostfile

// RenameNoReplace gives the file the new name, too. The caller must then remove the old name with UnlinkOldName.
func RenameNoReplace(from, to string) error { return linkNoReplace(from, to) }
