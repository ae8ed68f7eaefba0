//go:build unix

package load

import (
	"fmt"
	"syscall"
)

// enoughFiles returns an error if the limit of open files is too low for the wanted connections. Go has raised the soft
// limit to the hard limit already.
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
