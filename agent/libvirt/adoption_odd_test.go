//go:build linux && ordeal

package libvirt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// Odd definitions that hosts really have are adopted, and a release restores their text, or they are refused with a
// reason. None hides the others.
func TestOddDomainsAreAdoptedOrRefusedWithReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	image := func(name string) string {
		run(t, "qemu-img", "create", "-f", "qcow2", f.volumePath(name), "1M")
		return f.volumePath(name)
	}
	disk := func(target, path string) string {
		return fmt.Sprintf("<disk type='file'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='%s' bus='scsi'/></disk>", path, target)
	}
	many := func(n int) string {
		var out strings.Builder
		for i := range n {
			target := "sd" + string(rune('a'+i%26))
			if i >= 26 {
				target = "sda" + string(rune('a'+i-26))
			}
			out.WriteString(disk(target, image(fmt.Sprintf("many-%d-%d.qcow2", n, i))))
		}
		return out.String()
	}
	f.requireNoError(os.Symlink(image("real.qcow2"), f.volumePath("link.qcow2")))
	shared := disk("sda", image("shared.qcow2"))
	const mark = `<metadata><quantix:vm xmlns:quantix='https://quantix.dev/xmlns/vm/1'><quantix:id>01a22263-936f-7000-a0cf-0084771f6447</quantix:id></quantix:vm></metadata>`
	odd := []struct {
		name, head, devices, tail string
		refusal                   string // words of the reason; empty: the domain is adopted
		on                        bool
		mark                      bool // the release removes the foreign mark, too
	}{
		{name: "plain", devices: disk("sda", image("plain.qcow2")), on: true},
		{name: "entities", head: "<title>&lt;a&gt; &amp;amp; &#34;b&#34;</title><description>&#x4e2d; ]]&gt; &#9;</description>", devices: disk("sda", image("entities.qcow2"))},
		{
			name: "namespaces", devices: disk("sda", image("namespaces.qcow2")),
			tail: "<qemu:commandline><qemu:arg value='-global'/><qemu:arg value='a.b=&quot;&lt;'/><qemu:env name='X' value='1'/></qemu:commandline><qemu:capabilities><qemu:del capability='blockdev'/></qemu:capabilities>",
		},
		{name: "foreign-metadata", head: "<metadata><app:x xmlns:app='http://example.org/1'><app:y z='&lt;'>text</app:y></app:x></metadata>", devices: disk("sda", image("foreign.qcow2"))},
		{name: "copied-mark", head: mark, devices: disk("sda", image("copied.qcow2")), mark: true},
		{name: "long-description", head: "<description>" + strings.Repeat("0123456789abcde\n", 1<<16) + "</description>", devices: disk("sda", image("long.qcow2")), refusal: "KiB"},
		{name: "description-64k", head: "<description>" + strings.Repeat("0123456789abcde\n", 1<<12) + "</description>", devices: disk("sda", image("description.qcow2")), refusal: "more than 60 KiB"},
		{name: "description-32k", head: "<description>" + strings.Repeat("0123456789abcde\n", 1<<11) + "</description>", devices: disk("sda", image("short.qcow2"))},
		{name: "disks-24", devices: many(24)},
		{name: "disks-40", devices: many(40)}, // the portal refuses the spec: see fleet.MaxDisks
		{name: "symlink", devices: disk("sda", f.volumePath("link.qcow2")), refusal: "a link"},
		{name: "block-device", devices: "<disk type='block'><driver name='qemu' type='raw'/><source dev='/dev/zero'/><target dev='sda' bus='scsi'/></disk>", refusal: "no pool of Quantix on this host has it"},
		{name: "shared-a", devices: shared, refusal: "another VM of the host uses it, too"},
		{name: "shared-b", devices: shared, refusal: "another VM of the host uses it, too"},
		{name: "no-disk"},
		{name: "paused", devices: disk("sda", image("paused.qcow2")), on: true},
		{name: "transient", devices: disk("sda", image("transient.qcow2")), refusal: "no persistent definition", on: true},
	}
	ids := map[string]fleet.VMID{}
	for _, o := range odd {
		xml := filepath.Join(t.TempDir(), "domain.xml")
		text := "<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>odd-" + o.name + "</name>" + o.head +
			"<memory unit='MiB'>128</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os><devices>" + o.devices + "</devices>" + o.tail + "</domain>"
		f.requireNoError(os.WriteFile(xml, []byte(text), 0o600))
		name := "odd-" + o.name
		if o.name == "transient" {
			virsh(t, "create", xml)
		} else {
			virsh(t, "define", xml)
			// libvirt orders the controllers in another way when it reads its own text again, as at its restart.
			f.requireNoError(os.WriteFile(xml, []byte(virsh(t, "dumpxml", name, "--inactive")), 0o600))
			virsh(t, "define", xml)
		}
		if o.on && o.name != "transient" {
			virsh(t, "start", name)
		}
		if o.name == "paused" {
			virsh(t, "suspend", name)
		}
		ids[o.name] = fleet.VMID(virsh(t, "domuuid", name))
		t.Cleanup(func() {
			if o.on {
				virsh(t, "destroy", name)
			}
			if o.name != "transient" {
				virsh(t, "undefine", name)
			}
		})
	}
	for _, o := range odd {
		id, name := ids[o.name], "odd-"+o.name
		read, err := f.ReadUnmanagedVM(t.Context(), id, []fleet.Pool{f.pool})
		if err != nil {
			t.Errorf("%s: %v", o.name, err)
			continue
		}
		if got := strings.Join(read.Refusals, " "); o.refusal == "" && got != "" || !strings.Contains(got, o.refusal) {
			t.Errorf("%s is refused by %q, want %q", o.name, got, o.refusal)
			continue
		}
		if len(read.Description) > fleet.MaxDescription+4 {
			t.Errorf("%s: the host sends %d bytes of the description", o.name, len(read.Description))
		}
		if o.refusal != "" {
			continue
		}
		before := virsh(t, "dumpxml", name, "--inactive", "--security-info")
		vm := fleet.VM{Meta: fleet.Meta{ID: id, Name: name, Generation: 1}, Spec: read.Spec}
		in := applyJob(vm, f.pool)
		in.Adopted = true
		for _, d := range vm.Spec.Disks {
			in.CreatedDisks = append(in.CreatedDisks, d.Ref())
		}
		if err := f.ApplyVM(t.Context(), in); err != nil {
			t.Errorf("adopt %s: %v", o.name, err)
			continue
		}
		if st, _, err := f.VM(t.Context(), id); err != nil || len(st.Drift)+len(st.Faults)+len(st.NextBoot) > 0 {
			t.Errorf("%s: drift %+v, faults %+v, waiting for the next start %q, %v", o.name, st.Drift, st.Faults, st.NextBoot, err)
		}
		f.requireNoError(f.ReleaseVM(t.Context(), vm))
		if o.mark {
			before = quantixMetadata.ReplaceAllString(before, "")
			before = emptyMetadata.ReplaceAllString(before, "")
		}
		wantSameText(t, o.name+", released", virsh(t, "dumpxml", name, "--inactive", "--security-info"), before)
	}
	state := must(f.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{f.pool}}}))
	for name, id := range ids {
		if !hasDiscovered(state.Discovered, id) {
			t.Errorf("the host does not report the domain %s as discovered", name)
		}
	}
}

func hasDiscovered(all []fleet.DiscoveredVM, id fleet.VMID) bool {
	for _, d := range all {
		if d.ID == id {
			return true
		}
	}
	return false
}
