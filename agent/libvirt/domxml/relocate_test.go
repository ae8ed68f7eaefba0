package domxml

import (
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

func TestMovedDisksChangeOnlyPathsAndVariables(t *testing.T) {
	t.Parallel()
	const id = "01a22140-f038-7000-9db8-bcbf0307c075"
	text := `<domain type="kvm"><name>crm</name><uuid>` + id + `</uuid><os firmware="efi"><nvram template="/usr/share/OVMF/OVMF_VARS_4M.fd">/var/lib/libvirt/qemu/nvram/crm_VARS.fd</nvram></os><devices>` +
		`<disk type="file"><source file="/srv/a/crm.qcow2" startupPolicy="optional"><seclabel relabel="no"/></source><target dev="vda"/></disk>` +
		`<disk type="file"><source file="/srv/a/stays.qcow2"/><target dev="vdb"/></disk>` +
		`<disk type="file"><source file="/srv/a/edited.qcow2"/><target dev="vdc"/><alias name="` + DiskAliasPrefix + `old"/></disk><sound model="ich9"/></devices></domain>`
	x := &libvirtxml.Domain{}
	if err := x.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	was, err := DefinitionText(x)
	if err != nil {
		t.Fatal(err)
	}
	ref := fleet.Volref{PoolID: "pool-b", Volume: "edited-2.qcow2"}
	err = SetMovedDisks(x, []CopiedDisk{{From: "/srv/a/crm.qcow2", To: "/srv/b/crm-2.qcow2"}, {From: "/srv/a/edited.qcow2", To: "/srv/b/edited-2.qcow2", Ref: ref}})
	if err != nil {
		t.Fatal(err)
	}
	is, err := DefinitionText(x)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("/srv/a/crm.qcow2", "/srv/b/crm-2.qcow2", "/srv/a/edited.qcow2", "/srv/b/edited-2.qcow2", DiskAliasPrefix+"old", DiskAlias(ref), "crm_VARS.fd", id+"_VARS.fd").Replace(was)
	if is != want {
		t.Errorf("the definition is\n%s\nwant\n%s", is, want)
	}
	if err := SetMovedDisks(x, []CopiedDisk{{From: "/srv/a/crm.qcow2", To: "/srv/b/other.qcow2"}}); err == nil {
		t.Error("a disk that the definition does not have is accepted")
	}
}
