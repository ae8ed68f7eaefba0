//go:build unix

package load

import (
	"fmt"
	"syscall"
)

// checkOpenFileLimit returns an error if the limit of open files is too low for the wanted number of connections. Go has
// already raised the soft limit to the hard limit.
func checkOpenFileLimit(want int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if limit.Max < uint64(want) {
		return fmt.Errorf("this load run needs about %d connections, but this program may open only %d files: raise its limit (ulimit -Hn %d, as root) and the portal's (LimitNOFILE)", want, limit.Max, want)
	}
	return nil
}
