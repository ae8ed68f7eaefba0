package libvirt

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"quantix/agent"
)

// orphan is the process of the guest's QEMU where that runs though libvirt says that the guest is off; 0: there is none. A libvirt that is started again
// reads what it wrote of each guest that runs, which is the file kept, and forgets the guest of which it cannot: libvirt 9, killed as it begins to merge a
// disk, has written a mirror without its job, which it does not take. Such a guest runs on, out of everybody's reach.
func (b *Backend) orphan(s sighted) (pid int, kept string) {
	if s.live != nil || !s.ours {
		return 0, ""
	}
	stem := filepath.Join(filepath.Dir(b.socket), "qemu", s.ref.Name)
	text, err := os.ReadFile(stem + ".pid")
	if err != nil {
		return 0, ""
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, ""
	}
	args, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")) // empty of one that has ended
	if err != nil || !strings.Contains(string(args), "\x00-name\x00guest="+strings.ReplaceAll(s.ref.Name, ",", ",,")+",") {
		return 0, ""
	}
	return pid, stem + ".xml"
}

// reached refuses all orders for a guest that libvirt has lost: to libvirt it is off, so that it would be started a second time, and its disks changed or
// deleted beneath it.
func (b *Backend) reached(s sighted) error {
	if pid, kept := b.orphan(s); pid != 0 {
		return agent.Refusal(agent.Lost(pid, kept))
	}
	return nil
}
