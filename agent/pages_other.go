//go:build !linux

package agent

import "os"

func forgetPages(*os.File) {}
