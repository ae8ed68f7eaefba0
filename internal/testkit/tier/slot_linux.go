package tier

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// slotFile is locked by the test program that runs real guests. It is never removed, because a lock on a removed file
// has no effect.
const slotFile = "/run/quantix-test-guests"

// AcquireGuestSlot waits until no other test program on this machine runs real guests. It then holds the slot until release or
// the end of the process. Emulated guests use the processors completely, so two packages at the same time would time
// out.
func AcquireGuestSlot() (release func(), err error) {
	return lockSlotFile(slotFile)
}

func lockSlotFile(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("acquire the guest slot: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := os.ReadFile(path)
		fmt.Fprintf(os.Stderr, "waiting for the guest slot, which %s holds\n", strings.TrimSpace(string(holder)))
		err = flock(f)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "process %d (%s)\n", os.Getpid(), os.Args[0])
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("acquire the guest slot: %w", err)
	}
	return func() { f.Close() }, nil
}

// flock waits for the lock and retries after signals.
func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
