//go:build linux && ordeal

package libvirt_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// killGuestFault returns a function for fault.inject that kills the VM's QEMU.
func killGuestFault(vm *fleet.VM) func(*faultRunner, *childRun, int) bool {
	return func(c *faultRunner, _ *childRun, _ int) bool {
		killQEMU(&snapper{fixture: c.fixture, vm: *vm})
		return true
	}
}

// wantLiveDevices requires that the running guest has every device of its definition exactly once.
func (c *faultRunner) wantLiveDevices(when string, vm fleet.VM, disc string) {
	c.t.Helper()
	s := c.requireNoDrift(when, vm)
	if s.Power != fleet.Running || s.CPUs != vm.Spec.CPUs || s.MemoryMiB != vm.Spec.MemoryMiB {
		c.t.Fatalf("%s: the guest is %s, and has %d vCPUs and %d MiB", when, s.Power, s.CPUs, s.MemoryMiB)
	}
	for i, d := range vm.Spec.Disks {
		if s.Disks[i].SizeBytes != d.SizeBytes {
			c.t.Fatalf("%s: disk %d has %d bytes", when, i+1, s.Disks[i].SizeBytes)
		}
	}
	id := string(vm.ID)
	for how, config := range map[string]string{"runs": "", "starts next": "--inactive"} {
		args := func(what string) []string {
			return slices.DeleteFunc([]string{what, id, config}, func(s string) bool { return s == "" })
		}
		disks, nics := virsh(c.t, args("domblklist")...), virsh(c.t, args("domiflist")...)
		if strings.Count(disks, ".qcow2") != len(vm.Spec.Disks) || disc != "" && strings.Count(disks, disc) != 1 || disc == "" && strings.Contains(disks, ".iso") {
			c.t.Fatalf("%s: the guest that %s has the disks\n%s", when, how, disks)
		}
		if strings.Count(disks, "/dev/disk/by-id/") != len(vm.Spec.HostDevices) {
			c.t.Fatalf("%s: with the host devices %v the guest that %s has the disks\n%s", when, vm.Spec.HostDevices, how, disks)
		}
		if strings.Count(nics, "52:54:") != len(vm.Spec.NICs) {
			c.t.Fatalf("%s: the guest that %s has the NICs\n%s", when, how, nics)
		}
	}
}

// If the agent, libvirtd or QEMU is killed while a running guest gets vCPUs, memory, disks, a NIC and an ISO, a retry
// completes the change. The guest and its definition then have each device once.
func TestInterruptedHotPlugCompletes(t *testing.T) {
	c := newFaultRunner(t)
	addImage(t, c.pool, conformance.Image{Name: "disc.iso", Kind: conformance.ISO, SizeBytes: 1 << 20})
	c.requireNoError(c.ApplyPool(t.Context(), c.pool))
	physical, _ := physicalDisk(t)
	var vm fleet.VM
	d := interruptedJob{
		name: "plug",
		begin: func(string) childJob {
			vm = c.newVM()
			vm.Spec.CPU.Max, vm.Spec.Memory.MaxMiB = 2, 512
			vm.Spec.Disks = []fleet.Disk{c.newDisk("first.qcow2")}
			vm.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:0c:00:01"}}
			c.apply(vm)
			c.requireNoError(c.StartVM(t.Context(), vm.ID))
			more := vm
			more.Generation++
			more.Spec.CPUs, more.Spec.MemoryMiB = 2, 256
			more.Spec.Disks = []fleet.Disk{vm.Spec.Disks[0], c.newDisk("second.qcow2")}
			more.Spec.Disks[0].SizeBytes += 4 << 20
			more.Spec.NICs = []fleet.NIC{vm.Spec.NICs[0], {Network: "default", MAC: "52:54:00:0c:00:02"}}
			more.Spec.ISO = &fleet.Volref{PoolID: c.pool.ID, Volume: "disc.iso"}
			more.Spec.HostDevices = []fleet.VMHostDevice{{Device: physical}}
			return childJob{Book: c.book, VM: &more, Pools: []fleet.Pool{c.pool}}
		},
		check: func(when string, o childJob) {
			if powerOf(t, vm.ID) != fleet.Running {
				if !strings.Contains(when, "QEMU") {
					t.Fatalf("%s: the guest no longer runs", when)
				}
				c.requireNoError(c.StartVM(t.Context(), vm.ID))
			}
			c.wantLiveDevices(when, *o.VM, "disc.iso")
			c.wantPoolFiles(when, "first.qcow2", "second.qcow2", "disc.iso")
			killGuestFault(&vm)(c, nil, 0)
			c.deleteCompletely(when, *o.VM, "disc.iso")
		},
	}
	c.runAllFaults(d, injectedFault{name: "the agent is killed", first: 1, every: 2, inject: killAgent},
		injectedFault{name: "the agent is killed a moment later", first: 2, every: 6, inject: killAgentLater},
		injectedFault{name: "libvirtd is killed", first: 2, every: 5, inject: killServer},
		injectedFault{name: "QEMU is killed", first: 4, every: 6, inject: killGuestFault(&vm)})
	c.logFaultPlaces(30)
}

// If the agent, libvirtd or QEMU is killed while a running guest loses a disk, a host disk, a NIC and an ISO, a retry
// completes the change. The removed devices are then free again.
func TestInterruptedHotUnplugCompletes(t *testing.T) {
	c := newFaultRunner(t)
	guest := must(lab.GuestImage(t.Context(), lab.CacheDir()))
	run(t, "cp", guest.Disk, filepath.Join(c.pool.Spec.Path, "root.qcow2"))
	addImage(t, c.pool, conformance.Image{Name: "disc.iso", Kind: conformance.ISO, SizeBytes: 1 << 20})
	c.requireNoError(c.ApplyPool(t.Context(), c.pool))
	vm := c.newVM()
	root := fleet.Disk{PoolID: c.pool.ID, Volume: "first.qcow2", Image: &fleet.Volref{PoolID: c.pool.ID, Volume: "root.qcow2"}}
	own := fleet.NIC{Network: "default", MAC: "52:54:00:0d:00:01"}
	vm.Spec.Disks, vm.Spec.NICs = []fleet.Disk{root}, []fleet.NIC{own}
	up := func(when string) {
		t.Helper()
		if powerOf(t, vm.ID) == fleet.Running {
			return
		}
		c.requireNoError(c.StartVM(t.Context(), vm.ID))
		waitFor(t, when+": the guest answers", func() bool {
			_, err := tryVirsh("qemu-agent-command", string(vm.ID), `{"execute":"guest-ping"}`)
			return err == nil
		})
	}
	c.requireNoError(c.ApplyVM(t.Context(), applyJob(vm, c.pool)))
	up("at first")
	number := 0
	physical, _ := physicalDisk(t)
	d := interruptedJob{
		name: "unplug",
		begin: func(when string) childJob {
			up(when)
			number++
			vm.Generation++
			vm.Spec.Disks = []fleet.Disk{root, c.newDisk(fmt.Sprintf("more-%d.qcow2", number))}
			vm.Spec.NICs = []fleet.NIC{own, {Network: "default", MAC: fmt.Sprintf("52:54:00:0d:01:%02d", number)}}
			vm.Spec.ISO = &fleet.Volref{PoolID: c.pool.ID, Volume: "disc.iso"}
			vm.Spec.HostDevices = []fleet.VMHostDevice{{Device: physical}}
			c.apply(vm)
			waitFor(t, when+": the guest sees the NIC", func() bool {
				out, _ := tryVirsh("qemu-agent-command", string(vm.ID), `{"execute":"guest-network-get-interfaces"}`)
				return strings.Contains(out, vm.Spec.NICs[1].MAC)
			})
			vm.Generation++
			vm.Spec.Disks, vm.Spec.NICs, vm.Spec.ISO = []fleet.Disk{root}, []fleet.NIC{own}, nil
			vm.Spec.HostDevices = nil
			less := vm
			return childJob{Book: c.book, VM: &less, Pools: []fleet.Pool{c.pool}}
		},
		check: func(when string, _ childJob) {
			if powerOf(t, vm.ID) != fleet.Running && !strings.Contains(when, "QEMU") {
				t.Fatalf("%s: the guest no longer runs", when)
			}
			up(when)
			with := vm
			with.Spec.Disks = slices.Clone(vm.Spec.Disks)
			with.Spec.Disks[0].SizeBytes = c.requireNoDrift(when, vm).Disks[0].SizeBytes // the spec does not have the size
			c.wantLiveDevices(when, with, "")
			left := fmt.Sprintf("more-%d.qcow2", number)
			c.wantPoolFiles(when, "root.qcow2", "first.qcow2", "disc.iso", left)
			// libvirt reports the detach before QEMU closes the file
			waitFor(t, when+": "+left+" is free again", func() bool {
				return c.DeleteVolume(t.Context(), c.volumeJob(left, fleet.VolumeParams{})) == nil
			})
		},
	}
	c.runAllFaults(d, injectedFault{name: "the agent is killed", first: 1, every: 2, inject: killAgent},
		injectedFault{name: "libvirtd is killed", first: 2, every: 5, inject: killServer},
		injectedFault{name: "QEMU is killed", first: 5, every: 6, inject: killGuestFault(&vm)})
	c.deleteCompletely("afterwards", vm, "disc.iso", "root.qcow2") // root.qcow2 existed before the test
	c.logFaultPlaces(10)
}
