package libvirt

import (
	"os"
	"path/filepath"
	"strings"

	"quantix/agent/hypervisor"
)

// bridgedPackets is the directory of the kernel settings that pass bridged traffic to iptables and ip6tables. The
// files exist once a kernel module is loaded, which the first rule triggers. The module's default is 1 (on); an
// administrator may set 0.
const bridgedPackets = "/proc/sys/net/bridge"

// bridgeFilteringOff returns the reason why security group rules have no effect on this host, or nil if they have.
// libvirt accepts network filters in either case.
func bridgeFilteringOff(dir string) error {
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && strings.TrimSpace(string(text)) == "0" {
			return hypervisor.PacketsUnseen(name)
		}
	}
	return nil
}
