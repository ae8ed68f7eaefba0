//go:build !linux

package pooldir

import "os"

func forgetPages(*os.File) {}
