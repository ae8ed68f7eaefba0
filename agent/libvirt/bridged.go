package libvirt

import (
	"os"
	"path/filepath"
	"strings"

	"quantix/agent"
)

// bridgedPackets is where Linux says whether iptables and ip6tables are shown what passes a bridge. The files come with a module that the first
// rule brings along, and then it is so; who wants it otherwise writes 0.
const bridgedPackets = "/proc/sys/net/bridge"

// unseen is why no rule of a security group counts on this host; nil: they do. libvirt takes filters all the same.
func unseen(dir string) error {
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && strings.TrimSpace(string(text)) == "0" {
			return agent.PacketsUnseen(name)
		}
	}
	return nil
}
