//go:build linux && ordeal

package libvirt_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// The error of each refused block pool names the missing setting or storage. Quantix never creates a volume group and
// never uses one that the host's settings do not allow.
func TestBlockPoolRefusalNamesMissingSettingOrStorage(t *testing.T) {
	t.Parallel()
	kernel := fleet.PoolSpec{Kind: fleet.PoolISCSI, Portal: "127.0.0.1:1", Target: "iqn.2026-01.org.example:none", Shared: true}
	group := fleet.PoolSpec{Kind: fleet.PoolLogical, Group: "vg-none-such"}
	for what, c := range map[string]struct {
		spec    fleet.PoolSpec
		devices []string
		want    string
	}{
		"volume group not allowed":   {group, nil, "allows no device for pools"},
		"only another group allowed": {group, []string{"/dev/vg-vms"}, "allows /dev/vg-vms only"},
		"volume group missing":       {group, []string{"/dev/vg-*"}, "cannot find logical volume group name 'vg-none-such'"},
		"iSCSI target unreachable":   {kernel, nil, "libvirt: "},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := backendAllowing(t, c.devices...)
			p := releasedPool(t, b, fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: c.spec})
			err := b.ApplyPool(t.Context(), p)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("apply: %v, want %q", err, c.want)
			}
			if st := poolStatusOf(t, b, p); st.State != fleet.PoolFailed || !strings.Contains(st.Error, c.want) {
				t.Errorf("the pool is %+v", st)
			}
		})
	}
}
