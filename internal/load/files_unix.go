//go:build unix

package load

import (
	"fmt"
	"syscall"
)

// enoughFiles refuses a load for which this program may not open enough connections. Go has raised the limit to the hardest already.
func enoughFiles(want int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("ask how many files may be open: %w", err)
	}
	if limit.Max < uint64(want) {
		return fmt.Errorf("this load holds about %d connections, and this program may open %d files: raise the limit (ulimit -Hn %d, as root), of the portal too (LimitNOFILE)", want, limit.Max, want)
	}
	return nil
}
