package tier

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestGuestTestsRunInOneProcessAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "slot")
	release, err := lockSlotFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), strconv.Itoa(os.Getpid())) {
		t.Errorf("the slot names its holder as %q, %v", text, err)
	}
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		t.Error("the slot is free while it is held")
	}
	taken := make(chan error, 1)
	go func() {
		second, err := lockSlotFile(path)
		if err == nil {
			second()
		}
		taken <- err
	}()
	release()
	if err := <-taken; err != nil {
		t.Errorf("the slot after its release: %v", err)
	}
}
