package vmpages

import (
	"net/url"
	"testing"

	vmview "quantix/views/vm"
)

func TestProjectChangeKeepsPoolOfAppliance(t *testing.T) {
	t.Parallel()
	typed := url.Values{
		vmview.ProposedPoolField: {"p1"}, vmview.ProposedNetworkField: {"libvirt:default"},
		"from.appliance.poolId": {"p1"}, "spec.disks[0].poolId": {"p1"}, "spec.disks[1].poolId": {"p2"}, "spec.nics[0].network": {"libvirt:default"},
	}
	clearProposedDefaults(typed)
	for field, want := range map[string]string{"from.appliance.poolId": "p1", "spec.disks[0].poolId": "", "spec.disks[1].poolId": "p2", "spec.nics[0].network": ""} {
		if got := typed.Get(field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
}
