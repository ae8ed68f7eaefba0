package libvirt

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"quantix/agent/hypervisor"
)

// findLostGuest returns the process ID of the guest's QEMU and libvirt's status file if QEMU runs although libvirt
// reports the guest as off. Otherwise it returns 0. On a restart, libvirt reads a status file for each running guest
// and loses a guest with a rejected file. If libvirt 9 is killed as it begins a block commit, it writes a mirror
// without a job, and later rejects that file. The lost guest keeps running, but libvirt no longer controls it.
func (b *Backend) findLostGuest(s observedDomain) (pid int, statusFile string) {
	if s.live != nil || !s.managed {
		return 0, ""
	}
	stem := filepath.Join(filepath.Dir(b.daemon.Socket), "qemu", s.ref.Name)
	text, err := os.ReadFile(stem + ".pid")
	if err != nil {
		return 0, ""
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, ""
	}
	args, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")) // empty if the process has exited
	if err != nil || !strings.Contains(string(args), "\x00-name\x00guest="+strings.ReplaceAll(s.ref.Name, ",", ",,")+",") {
		return 0, ""
	}
	return pid, stem + ".xml"
}

// refuseLostGuest refuses every job for a guest that libvirt has lost. libvirt believes that the guest is off, so
// libvirt would start the guest twice, or change and delete the disks of a running guest.
func (b *Backend) refuseLostGuest(s observedDomain) error {
	if pid, statusFile := b.findLostGuest(s); pid != 0 {
		return hypervisor.FaultError(hypervisor.GuestLostByLibvirtFault(pid, statusFile))
	}
	return nil
}
