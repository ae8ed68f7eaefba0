package pooldir

import "os"

// inode returns 0: pools exist on Linux hosts only.
func inode(os.FileInfo) uint64 { return 0 }

// deviceNumber returns "": Windows has no pools on devices.
func deviceNumber(os.FileInfo) string { return "" }
