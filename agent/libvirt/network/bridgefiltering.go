package network

import (
	"os"
	"path/filepath"
	"strings"

	"quantix/agent/hypervisor"
)

// bridgeSettingsDir is the directory of the kernel settings that pass bridged traffic to iptables and ip6tables. A
// kernel module creates the files; the first rule loads the module. The default of each setting is 1 (on), and an
// administrator may set 0.
const bridgeSettingsDir = "/proc/sys/net/bridge"

// checkBridgeFiltering returns an error if a kernel setting makes security group rules ineffective on this host.
// libvirt accepts network filters in either case.
func checkBridgeFiltering(dir string) error {
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && strings.TrimSpace(string(text)) == "0" {
			return hypervisor.RefuseUnfilteredBridges(name)
		}
	}
	return nil
}
