//go:build linux && ordeal

package libvirt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
)

// defineUnmanagedDomain defines a domain without Quantix metadata that has these disks. The test's cleanup undefines
// it.
func defineUnmanagedDomain(t *testing.T, disks string) fleet.VMID {
	t.Helper()
	name := "stranger-" + string(fleet.NewID[fleet.VMID]())
	xml := filepath.Join(t.TempDir(), "domain.xml")
	text := `<domain type='qemu'><name>` + name + `</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64'>hvm</type></os><devices>` + disks + `</devices></domain>`
	if err := os.WriteFile(xml, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "define", xml)
	t.Cleanup(func() { virsh(t, "undefine", name) })
	return fleet.VMID(virsh(t, "domuuid", name))
}

func fileDiskXML(path, format string) string {
	return fmt.Sprintf(`<disk type='file' device='disk'><driver name='qemu' type='%s'/><source file='%s'/><target dev='vda' bus='virtio'/></disk>`, format, path)
}

// The agent finds the users of a file under every path that a definition may use for the file.
func TestDomainsUsingFileFoundUnderAnyPath(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(f.pool.Spec.Path, name) }
	f.requireNoError(os.Symlink(f.pool.Spec.Path, filepath.Join(dir, "link")))
	bound := filepath.Join(dir, "bound")
	f.requireNoError(os.Mkdir(bound, 0o755))
	f.requireNoError(bindMount(f.pool.Spec.Path, bound))
	t.Cleanup(func() { f.requireNoError(syscall.Unmount(bound, 0)) })
	other := "other-" + string(f.pool.ID)
	// libvirt refuses a second pool with the same path, but accepts a second pool whose path contains a symbolic link.
	virsh(t, "pool-define-as", other, "dir", "--target", filepath.Join(dir, "link"))
	t.Cleanup(func() { virsh(t, "pool-undefine", other) })

	overlay := filepath.Join(dir, "overlay")
	fake := filepath.Join(dir, "fake.raw") // a guest may write anything to a raw disk
	ways := map[string]func(volume string) string{
		"path":    func(v string) string { return fileDiskXML(at(v), "qcow2") },
		"symlink": func(v string) string { return fileDiskXML(filepath.Join(dir, "link", v), "qcow2") },
		"bind":    func(v string) string { return fileDiskXML(filepath.Join(bound, v), "qcow2") },
		"hardlink": func(v string) string {
			f.requireNoError(os.Link(at(v), at("other-name")))
			return fileDiskXML(at("other-name"), "qcow2")
		},
		"volume": func(v string) string {
			return fmt.Sprintf(`<disk type='volume' device='disk'><driver name='qemu' type='qcow2'/><source pool='%s' volume='%s'/><target dev='vda' bus='virtio'/></disk>`, f.pool.Name, v)
		},
		"volume-of-another-pool": func(v string) string {
			return fmt.Sprintf(`<disk type='volume' device='disk'><driver name='qemu' type='qcow2'/><source pool='%s' volume='%s'/><target dev='vda' bus='virtio'/></disk>`, other, v)
		},
		"backing": func(v string) string {
			run(t, "qemu-img", "create", "-f", "qcow2", "-b", at(v), "-F", "qcow2", overlay+"1")
			run(t, "qemu-img", "create", "-f", "qcow2", "-b", overlay+"1", "-F", "qcow2", overlay+"2")
			return fileDiskXML(overlay+"2", "qcow2")
		},
		"data-file": func(v string) string {
			run(t, "qemu-img", "create", "-f", "qcow2", "-o", "data_file="+at(v)+",data_file_raw=on", overlay+"3", "4M")
			return fileDiskXML(overlay+"3", "qcow2")
		},
	}
	want := map[string][]fleet.VMID{"free": nil, "named-by-a-guest": nil}
	addImage(t, f.pool, conformance.Image{Name: "free", Kind: conformance.Qcow2, SizeBytes: 4 << 20})
	addImage(t, f.pool, conformance.Image{Name: "named-by-a-guest", Kind: conformance.Qcow2, SizeBytes: 4 << 20})
	run(t, "qemu-img", "create", "-f", "qcow2", "-b", at("named-by-a-guest"), "-F", "qcow2", fake)
	defineUnmanagedDomain(t, fileDiskXML(fake, "raw"))
	for how, disks := range ways {
		addImage(t, f.pool, conformance.Image{Name: how, Kind: conformance.Qcow2, SizeBytes: 4 << 20})
		want[how] = []fleet.VMID{defineUnmanagedDomain(t, disks(how))}
	}
	f.requireNoError(f.ApplyPool(t.Context(), f.pool)) // refreshes the pool
	seen := 0
	for _, v := range poolStatusOf(t, f, f.pool).Volumes {
		users, known := want[v.Name]
		if known && !slices.Equal(v.UsedBy, users) {
			t.Errorf("%s: the volume is a disk of %q, want %q", v.Name, v.UsedBy, users)
		}
		if known {
			seen++
		}
	}
	if seen != len(want) {
		t.Errorf("%d of %d volumes are reported", seen, len(want))
	}
	for how := range want {
		vm := f.newVM()
		d := f.newDisk("clone-of-" + how)
		d.SizeBytes, d.Image = 0, &fleet.Volref{PoolID: f.pool.ID, Volume: how}
		vm.Spec.Disks = []fleet.Disk{d}
		err := f.ApplyVM(t.Context(), applyJob(vm, f.pool))
		if taken := ways[how] != nil; taken != (fleet.CodeOf(err) == fleet.Conflict) {
			t.Errorf("%s: clone: %v", how, err)
		}
		vm = f.newVM()
		vm.Spec.Disks = []fleet.Disk{f.newDisk(how)}
		if how == "free" || how == "named-by-a-guest" {
			continue
		}
		if err := f.ApplyVM(t.Context(), applyJob(vm, f.pool)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s: given to a second VM: %v", how, err)
		}
	}
}

// An overlay that an administrator created on a VM's disk does not block edits of the VM.
func TestUnmanagedOverlayDoesNotBlockEdit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("base")}
	f.apply(vm)
	overlay := filepath.Join(t.TempDir(), "overlay")
	run(t, "qemu-img", "create", "-f", "qcow2", "-b", filepath.Join(f.pool.Spec.Path, "base"), "-F", "qcow2", overlay)
	defineUnmanagedDomain(t, fileDiskXML(overlay, "qcow2"))
	vm.Generation, vm.Spec.CPUs = 2, 2
	f.apply(vm)
}

// A symbolic link in a pool may lead outside the pool.
func TestSymlinkInPoolNotCloned(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	secret := filepath.Join(t.TempDir(), "secret.raw")
	f.requireNoError(os.WriteFile(secret, make([]byte, 1<<20), 0o600))
	f.requireNoError(os.Symlink(secret, filepath.Join(f.pool.Spec.Path, "linked.raw")))
	f.requireNoError(f.ApplyPool(t.Context(), f.pool))
	vm := f.newVM()
	d := f.newDisk("clone")
	d.SizeBytes, d.Image = 0, &fleet.Volref{PoolID: f.pool.ID, Volume: "linked.raw"}
	vm.Spec.Disks = []fleet.Disk{d}
	if err := f.ApplyVM(t.Context(), applyJob(vm, f.pool)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "plain file") {
		t.Errorf("clone of a symbolic link: %v", err)
	}
}

// Before a deletion, the agent reads the users of the files without its cache, so changes since the last report count.
func TestDeleteChecksFileUsersWithoutCache(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := func(volume string) fleet.VM {
		t.Helper()
		vm := f.newVM()
		vm.Spec.Disks = []fleet.Disk{f.newDisk(volume)}
		f.requireNoError(f.ApplyVM(t.Context(), applyJob(vm, f.pool)))
		return vm
	}
	keeper, other, third := made("keeper.qcow2"), made("other.qcow2"), made("third.qcow2")
	at := func(volume string) string { return filepath.Join(f.pool.Spec.Path, volume) }
	_, err := f.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{f.pool}}}) // fills the cache of file users
	f.requireNoError(err)

	f.requireNoError(os.Remove(at("keeper.qcow2")))
	f.requireNoError(os.Symlink(at("other.qcow2"), at("keeper.qcow2")))
	if err := f.DeleteVM(t.Context(), other, []fleet.Pool{f.pool}, true); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "in use by another VM") {
		t.Errorf("delete a disk that another VM's disk links to: %v", err)
	}
	if _, err := os.Stat(at("keeper.qcow2")); err != nil {
		t.Error(err)
	}

	f.requireNoError(os.Remove(at("keeper.qcow2")))
	f.requireNoError(os.Rename(at("other.qcow2"), at("third.qcow2"))) // the third VM's file is now the one that the other VM had
	f.requireNoError(f.DeleteVM(t.Context(), third, []fleet.Pool{f.pool}, true))
	if _, err := os.Stat(at("third.qcow2")); err == nil {
		t.Error("the deleted VM's disk still exists")
	}
	for _, vm := range []fleet.VM{keeper, other} {
		f.requireNoError(f.DeleteVM(t.Context(), vm, []fleet.Pool{f.pool}, true))
	}
}
