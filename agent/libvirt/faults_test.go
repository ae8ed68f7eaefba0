//go:build linux && ordeal

package libvirt_test

import (
	"fmt"
	"testing"

	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
)

// If the agent or libvirtd is killed during the creation of a VM, a retry completes the VM with each file once. A
// deletion instead of the retry leaves no files behind.
func TestInterruptedCreateVMCompletesOrCleansUp(t *testing.T) {
	c := newFaultRunner(t)
	addImage(t, c.pool, conformance.Image{Name: "golden.qcow2", Kind: conformance.Qcow2, SizeBytes: 4 << 20})
	addImage(t, c.pool, conformance.Image{Name: "disc.iso", Kind: conformance.ISO, SizeBytes: 1 << 20})
	c.requireNoError(c.ApplyPool(t.Context(), c.pool))
	base := []string{"golden.qcow2", "disc.iso"}
	golden := fleet.Volref{PoolID: c.pool.ID, Volume: "golden.qcow2"}
	count := 0
	d := interruptedJob{
		name: "create",
		begin: func(string) childJob {
			vm := c.newVM()
			vm.Spec.Firmware, vm.Spec.FirstBoot = fleet.UEFI, fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1}
			vm.Spec.ISO = &fleet.Volref{PoolID: c.pool.ID, Volume: "disc.iso"}
			vm.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:0b:00:01"}}
			vm.Spec.Disks = []fleet.Disk{
				{PoolID: c.pool.ID, Volume: "over.qcow2", Image: &golden, ImageID: fleet.NewID[fleet.ImageID](), VersionID: fleet.NewID[fleet.ImageVersionID](), Overlay: true},
				{PoolID: c.pool.ID, Volume: "copy.qcow2", Image: &golden, SizeBytes: 6 << 20},
				c.newDisk("blank.qcow2"),
			}
			return childJob{Book: c.book, VM: &vm, Pools: []fleet.Pool{c.pool}, FirstBoot: map[string][]byte{"user-data": []byte("#cloud-config\n"), "meta-data": []byte("instance-id: one\n")}}
		},
		check: func(when string, o childJob) {
			vm := *o.VM
			c.requireNoDrift(when, vm)
			c.wantPoolFiles(when, append([]string{"over.qcow2", "copy.qcow2", "blank.qcow2"}, base...)...)
			c.wantSeedCount(when, vm.ID, 1)
			if count++; count%8 == 0 {
				c.requireNoError(c.StartVM(t.Context(), vm.ID))
				c.requireNoDrift(when+", started", vm)
				c.wantUEFIVarsCount(when+", started", vm.ID, 1)
			}
			c.deleteCompletely(when, vm, base...)
		},
	}
	c.runAllFaults(d, injectedFault{name: "the agent is killed", first: 1, every: 1, inject: killAgent},
		injectedFault{name: "the agent is killed a moment later", first: 2, every: 3, inject: killAgentLater},
		injectedFault{name: "libvirtd is killed", first: 3, every: 4, inject: killServer})
	deleted := injectedFault{name: "deleted", first: 1, every: 3, inject: killAgent}
	first, every := deleted.places(t)
	for n := first; ; n += every {
		when := fmt.Sprintf("create, deleted when interrupted at place %d", n)
		o := d.begin(when)
		where, err := c.runInterrupted(&o, n, deleted)
		if where == "" {
			c.requireNoError(err)
			c.deleteCompletely(when, *o.VM, base...)
			c.placeCount += deleted.countPlaces(c.stepCount)
			break
		}
		c.faultCount++
		c.waitIdle()
		c.deleteCompletely(when+" ("+where+")", *o.VM, base...)
	}
	c.logFaultPlaces(40)
}
