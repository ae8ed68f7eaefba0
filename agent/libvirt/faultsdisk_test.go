//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// secretUUIDs returns the UUIDs of the host's libvirt secrets.
func secretUUIDs(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for line := range strings.Lines(virsh(t, "secret-list")) {
		if f := strings.Fields(line); len(f) > 1 && strings.Count(f[0], "-") == 4 {
			out[f[0]] = true
		}
	}
	return out
}

// diskFaults are the faults injected into jobs on few disks.
func diskFaults() []injectedFault {
	return []injectedFault{
		{name: "the agent is killed", first: 1, every: 1, inject: killAgent},
		{name: "the agent is killed a moment later", first: 2, every: 3, inject: killAgentLater},
		{name: "libvirtd is killed", first: 2, every: 3, inject: killServer},
	}
}

// If the agent or libvirtd is killed during the creation or deletion of an encrypted disk, the passphrase exists
// exactly as long as the volume. A guest starts with the passphrase.
func TestInterruptedEncryptedDiskKeepsPassphraseWithVolume(t *testing.T) {
	c := newFaultRunner(t)
	before := len(secretUUIDs(t))
	pools := []fleet.Pool{c.pool}
	var sealed encryptedDiskCopy
	secret := c.newDisk("secret.qcow2")
	secret.Encryption = "luks"
	wants := func(when string, volumes, most int) {
		t.Helper()
		if n := len(secretUUIDs(t)) - before; n < volumes || n > most {
			t.Fatalf("%s: there are %d passphrases, want %d to %d", when, n, volumes, most)
		}
	}
	between := func(when string) {
		t.Helper()
		volumes := 0
		if _, err := os.Stat(c.volumePath(secret.Volume)); err == nil {
			volumes = 1
		}
		wants(when, volumes, 1)
	}
	encrypted := func() fleet.VM {
		vm := c.newVM()
		vm.Spec.Disks = []fleet.Disk{secret, c.newDisk("plain.qcow2")}
		return vm
	}
	gone := func(when string) {
		t.Helper()
		c.wantPoolFiles(when)
		wants(when, 0, 0)
	}
	// QEMU takes seconds to create an encrypted volume, because it benchmarks the key derivation. So only some steps
	// are interrupted.
	for _, p := range []struct {
		at      string
		happens func(*faultRunner, *childRun, int) bool
	}{{"before set a secret", killAgent}, {"in the middle of make a volume", killServer}} {
		vm := encrypted()
		when := "create an encrypted disk, interrupted " + p.at
		o := childJob{Book: c.book, VM: &vm, Pools: pools}
		if where, _ := c.runInterrupted(&o, 1, injectedFault{atStep: p.at, inject: p.happens}); where != p.at {
			t.Fatalf("%s: the job did not reach this step", when)
		}
		c.faultCount++
		c.placeCount++
		c.waitReconnected()
		between(when)
		c.retryJob(when, o)
		c.wantPoolFiles(when, "secret.qcow2", "plain.qcow2")
		wants(when, 1, 1)
		c.requireNoError(c.StartVM(t.Context(), vm.ID)) // QEMU opens the disk with the passphrase
		c.requireNoError(c.StopVM(t.Context(), vm.ID))
		sealed.save(c, secret)
		c.deleteCompletely(when, vm)
		gone(when)
	}
	c.runAllFaults(interruptedJob{
		name: "delete a VM with an encrypted disk",
		begin: func(string) childJob {
			vm := encrypted()
			sealed.restore(c, secret)
			c.requireNoError(c.ApplyVM(t.Context(), hypervisor.ApplyWork{VM: vm, Pools: pools, CreatedDisks: []fleet.Volref{secret.Ref()}, Progress: func(int, string) {}, RecordDisk: func(fleet.Volref) error { return nil }}))
			return childJob{Book: c.book, VM: &vm, Pools: pools, Delete: true}
		},
		between: between,
		check:   func(when string, _ childJob) { gone(when) },
	}, diskFaults()...)
	c.runAllFaults(interruptedJob{
		name: "delete an encrypted volume",
		begin: func(string) childJob {
			sealed.restore(c, secret)
			return childJob{Book: c.book, Kind: fleet.VolumeDelete, Pool: c.pool, Name: secret.Volume, Volume: &fleet.VolumeParams{}}
		},
		between: between,
		check:   func(when string, _ childJob) { gone(when) },
	}, diskFaults()...)
	c.logFaultPlaces(12)
}

// encryptedDiskCopy is an encrypted volume and its host's secret, which can be restored into a pool repeatedly.
type encryptedDiskCopy struct{ file, secret string }

// save copies the volume and its secret out of the pool, once.
func (s *encryptedDiskCopy) save(c *faultRunner, d fleet.Disk) {
	c.t.Helper()
	if s.file != "" {
		return
	}
	dir := c.t.TempDir()
	s.file, s.secret = filepath.Join(dir, d.Volume), filepath.Join(dir, "secret.xml")
	run(c.t, "cp", c.volumePath(d.Volume), s.file)
	for uuid := range secretUUIDs(c.t) {
		if text := virsh(c.t, "secret-dumpxml", uuid); strings.Contains(text, c.volumePath(d.Volume)) {
			c.requireNoError(os.WriteFile(s.secret, []byte(text), 0o600))
		}
	}
}

// restore restores the volume and its secret.
func (s *encryptedDiskCopy) restore(c *faultRunner, d fleet.Disk) {
	c.t.Helper()
	virsh(c.t, "secret-define", s.secret)
	run(c.t, "cp", s.file, c.volumePath(d.Volume))
	virsh(c.t, "pool-refresh", c.pool.Name)
}

// If the agent or libvirtd is killed while a host disk is attached to a VM or detached from it, a retry completes the
// change. The VM's own disks stay first, and a detached host disk is free again.
func TestInterruptedHostDiskChangeCompletes(t *testing.T) {
	c := newFaultRunner(t)
	device, use := physicalDisk(t)
	ownFirst := regexp.MustCompile(`\bvda +` + regexp.QuoteMeta(c.volumePath("own.qcow2")))
	disks := func(when string, vm fleet.VM, n int) {
		t.Helper()
		c.requireNoDrift(when, vm)
		all := virsh(t, "domblklist", string(vm.ID), "--inactive")
		if strings.Count(all, "/dev/") != n || strings.Count(all, strings.TrimPrefix(device, fleet.PhysicalDevice)) != n || !ownFirst.MatchString(all) {
			t.Fatalf("%s: the disks of the next start are\n%s", when, all)
		}
	}
	free := func(when string) {
		t.Helper()
		use()() // fails while the disk is in use
		c.wantPoolFiles(when)
	}
	with := []fleet.VMHostDevice{{Device: device}}
	for _, of := range []struct {
		name      string
		was, will []fleet.VMHostDevice
	}{{"create a VM with a host disk", nil, with}, {"attach a host disk", nil, with}, {"detach a host disk", with, nil}} {
		made := strings.HasPrefix(of.name, "create")
		c.runAllFaults(interruptedJob{
			name: of.name,
			begin: func(string) childJob {
				vm := c.newVM()
				vm.Spec.Disks, vm.Spec.HostDevices = []fleet.Disk{c.newDisk("own.qcow2")}, of.was
				if !made {
					c.apply(vm)
					vm.Generation++
				}
				vm.Spec.HostDevices = of.will
				return childJob{Book: c.book, VM: &vm, Pools: []fleet.Pool{c.pool}}
			},
			check: func(when string, o childJob) {
				disks(when, *o.VM, len(of.will))
				c.deleteCompletely(when, *o.VM)
				free(when)
			},
		}, diskFaults()...)
	}
	c.runAllFaults(interruptedJob{
		name: "delete a VM with a host disk",
		begin: func(string) childJob {
			vm := c.newVM()
			vm.Spec.Disks, vm.Spec.HostDevices = []fleet.Disk{c.newDisk("own.qcow2")}, with
			c.apply(vm)
			return childJob{Book: c.book, VM: &vm, Pools: []fleet.Pool{c.pool}, Delete: true}
		},
		check: func(when string, _ childJob) { free(when) },
	}, diskFaults()...)
	c.logFaultPlaces(20)
}
