package network

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A host that hides bridged traffic from iptables or ip6tables reports the setting to change.
func TestSecurityGroupsRefusedWhenIptablesSkipsBridges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ four, six, want string }{
		{"1", "1", ""},
		{"0", "1", "net.bridge.bridge-nf-call-iptables to 1"},
		{"1", "0", "net.bridge.bridge-nf-call-ip6tables to 1"},
		{"", "", ""}, // the module is not loaded: no rule has been written yet
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"iptables": c.four, "ip6tables": c.six} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, "bridge-nf-call-"+name), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		switch err := checkBridgeFiltering(dir); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("iptables %q, ip6tables %q: %v", c.four, c.six, err)
		}
	}
}
