//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestVirshPoolAndNetworkAreAdoptedAndStayOnHost adopts a host's pool "default" and a network on the host's page, runs a
// VM on both, and deletes both in the portal. Their definitions on the host must not change, and both must still run.
func TestVirshPoolAndNetworkAreAdoptedAndStayOnHost(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a, h := s.api(), s.Hosts[0]
	host := a.hostByName(t, "host-1")
	const pool = "default"
	network, existing := uniqueName("theirs"), "existing.qcow2"
	dir := filepath.Join(labDir(), "pools", uniqueName("adopted"))
	virsh(t, h, "pool-define-as", pool, "dir", "--target", dir)
	virsh(t, h, "pool-build", pool)
	virsh(t, h, "pool-start", pool)
	virsh(t, h, "vol-create-as", pool, existing, "16M", "--format", "qcow2")
	text := filepath.Join(t.TempDir(), "network.xml")
	writeFile(t, text, fmt.Sprintf(`<network><name>%s</name><forward mode='nat'/><dns><txt name='made' value='by virsh'/></dns>
<ip address='192.168.211.1' netmask='255.255.255.0'><dhcp><range start='192.168.211.2' end='192.168.211.99'/></dhcp></ip></network>`, network))
	virsh(t, h, "net-define", text)
	virsh(t, h, "net-start", network)
	sizes := regexp.MustCompile(`(?m)^ *<(capacity|allocation|available) .*\n`) // measured, not part of the definition
	definitions := func() string {
		t.Helper()
		return sizes.ReplaceAllString(virsh(t, h, "pool-dumpxml", pool, "--inactive"), "") + virsh(t, h, "net-dumpxml", network, "--inactive")
	}
	before := definitions()
	requireUnchanged := func(when string) {
		t.Helper()
		if now := definitions(); now != before {
			t.Errorf("%s, the definitions are\n%s\nwant\n%s", when, now, before)
		}
		for _, list := range []string{"pool-list", "net-list"} {
			if names := virsh(t, h, list, "--name"); !strings.Contains(names, pool) && !strings.Contains(names, network) {
				t.Errorf("%s, %s has %s", when, list, names)
			}
		}
	}

	p := newTab(t, s.URL)
	p.signIn(s)
	adopt := func(tab, name, fact string) (path string) {
		t.Helper()
		p.open("/hosts/" + string(host.ID) + "?tab=" + tab)
		p.click("a[aria-label='Adopt… "+name+"']", "Adopt…")
		p.waitText("#dialog h2", name)
		p.waitText("#dialog", fact)
		p.click("#dialog button.primary", "Adopt")
		p.waitPath("/" + pathOfTab[tab])
		p.waitText("h1", name)
		p.waitText("table.matrix", "Active")
		p.waitText("table.matrix", "Existed before Quantix")
		return p.path()
	}
	poolPath := adopt("storage", pool, dir)
	p.open(poolPath + "?tab=volumes")
	p.waitText("#pool-body", existing)
	networkPath := adopt("networks", network, "DNS")
	requireUnchanged("after the adoption")

	poolID, networkID := fleet.PoolID(filepath.Base(poolPath)), fleet.NetworkID(filepath.Base(networkPath))
	name, shared := uniqueName("guest"), a.poolByName(t, "shared")
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": host.ID, "start": true,
		"spec": map[string]any{
			"cpus": 1, "memoryMiB": 256,
			"disks": []any{map[string]any{"poolId": poolID, "image": map[string]any{"poolId": shared.ID, "volume": "tiny-guest.qcow2"}}},
			"nics":  []any{map[string]any{"networkId": networkID}},
		},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	if list := virsh(t, h, "domiflist", string(vm.ID)); !strings.Contains(list, network) {
		t.Errorf("the VM's NICs are %s", list)
	}
	disk := filepath.Join(dir, a.getVM(t, vm.ID).Spec.Disks[0].Volume)
	if _, err := os.Stat(disk); err != nil {
		t.Error(err)
	}
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"?disks=true&purge=true&confirm="+name, nil)
	eventually(t, stepLimit, "the VM is gone", func() (bool, string) {
		got, err := a.send(t.Context(), http.MethodGet, "/api/v1/vms/"+string(vm.ID), nil)
		return err == nil && got.status == http.StatusNotFound, string(got.body)
	})

	p.allowFaults("404") // the page of a deleted object may ask for its newest state
	for _, path := range []string{poolPath, networkPath} {
		word := map[bool]string{true: "pool", false: "network"}[path == poolPath]
		p.open(path)
		p.pickMenuItem(".head summary", "Actions", "Delete "+word)
		p.waitText("#dialog", "because it existed before Quantix")
		p.click("#dialog button.danger", "Delete "+word)
		p.waitPath("/" + word + "s")
		eventually(t, stepLimit, "the "+word+" is gone in Quantix", func() (bool, string) {
			got, err := a.send(t.Context(), http.MethodGet, "/api/v1"+path, nil)
			return err == nil && got.status == http.StatusNotFound, string(got.body)
		})
	}
	requireUnchanged("after the deletion")
	if names := virsh(t, h, "vol-list", pool); !strings.Contains(names, existing) {
		t.Errorf("after the deletion, the pool has %s", names)
	}
	p.open("/hosts/" + string(host.ID) + "?tab=storage")
	p.waitText("#host-body", "Discovered pools")
	p.waitTrue("the pool can be adopted again", `document.querySelector("a[aria-label='Adopt… `+pool+`']") !== null`)
	for _, command := range [][]string{{"pool-destroy", pool}, {"pool-undefine", pool}, {"net-destroy", network}, {"net-undefine", network}} {
		virsh(t, h, command...)
	}
}

// pathOfTab maps the tabs of a host's page to the paths of the objects that they list.
var pathOfTab = map[string]string{"storage": "pools/", "networks": "networks/"}
