package mock

import (
	"context"
	"errors"
	"fmt"
	"path"

	"quantix/agent"
	"quantix/internal/fleet"
)

// ApplyVM implements agent.Hypervisor.
func (h *Host) ApplyVM(ctx context.Context, vm fleet.VM, pools []fleet.Pool, progress agent.Progress) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	make, err := h.missing(vm, pools)
	if err != nil {
		return err
	}
	for i, v := range make {
		if err := h.copyVolume(ctx, v, i, len(make), progress); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.check(vm, pools); err != nil { // the world may have moved on during the copies
		return err
	}
	for _, v := range make {
		if _, ok := v.in.files[v.Name]; !ok {
			v.in.files[v.Name] = &v.file
		}
	}
	h.define(vm, pools)
	h.notify()
	return nil
}

// newVolume is a volume that is to be made.
type newVolume struct {
	file
	in    *directory
	image bool
}

// missing checks the spec against the host and lists the volumes to make.
func (h *Host) missing(vm fleet.VM, pools []fleet.Pool) ([]newVolume, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	make, err := h.check(vm, pools)
	if err == nil && misbehaves(vm.Name, FailCreate) {
		err = errors.New("cannot allocate the disk image: No space left on device")
	}
	return make, err
}

// check refuses what cannot be; h.mu is held.
func (h *Host) check(vm fleet.VM, pools []fleet.Pool) ([]newVolume, error) {
	if g, ok := h.guests[vm.ID]; ok && !g.managed {
		return nil, foreign(g)
	}
	for _, g := range h.guests {
		if g.id != vm.ID && g.name == vm.Name {
			return nil, fmt.Errorf("operation failed: domain '%s' already exists with uuid %s", vm.Name, g.id)
		}
	}
	var out []newVolume
	for _, d := range vm.Spec.Disks {
		p, err := h.active(d.PoolID, pools)
		if err != nil {
			return nil, err
		}
		if err := h.free(path.Join(p.spec.Path, d.Volume), vm.ID); err != nil {
			return nil, err
		}
		if _, ok := p.dir.files[d.Volume]; ok {
			continue
		}
		v, err := h.plan(d, p, pools)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	if iso := vm.Spec.ISO; iso != nil {
		p, err := h.active(iso.PoolID, pools)
		if err != nil {
			return nil, err
		}
		if _, ok := p.dir.files[iso.Volume]; !ok {
			return nil, noVolume(iso.Volume)
		}
	}
	return out, nil
}

// free refuses a disk that another domain holds.
func (h *Host) free(file string, owner fleet.VMID) error {
	for _, g := range h.guests {
		if g.id != owner && g.uses(file) {
			return fleet.Errorf(fleet.Conflict, "The disk %s belongs to the VM %q.", file, g.name)
		}
	}
	return nil
}

func (h *Host) plan(d fleet.Disk, p *pool, pools []fleet.Pool) (newVolume, error) {
	v := newVolume{in: p.dir, file: file{Volume: fleet.Volume{Name: d.Volume, Format: "qcow2", CapacityBytes: d.SizeBytes, AllocBytes: 196 << 10}}}
	if d.Image == nil {
		return v, nil
	}
	from, err := h.active(d.Image.PoolID, pools)
	if err != nil {
		return v, err
	}
	img, ok := from.dir.files[d.Image.Volume]
	switch {
	case !ok:
		return v, noVolume(d.Image.Volume)
	case img.Backing != "" || img.refers:
		return v, fleet.Errorf(fleet.Invalid, "The image %s refers to another file, so it cannot be cloned. Use a self-contained image.", img.Name)
	case d.SizeBytes != 0 && d.SizeBytes < img.CapacityBytes:
		return v, fleet.Errorf(fleet.Invalid, "The image %s is larger than the disk. Give the disk at least %d bytes.", img.Name, img.CapacityBytes)
	}
	v.CapacityBytes, v.AllocBytes, v.image = max(d.SizeBytes, img.CapacityBytes), img.AllocBytes, true
	return v, nil
}

func noVolume(name string) error {
	return fmt.Errorf("Storage volume not found: no storage vol with matching name '%s'", name)
}

// copyVolume takes its time, in ten steps for a clone.
func (h *Host) copyVolume(ctx context.Context, v newVolume, i, n int, progress agent.Progress) error {
	note := fmt.Sprintf("Creating disk %d", i+1)
	steps := 1
	if v.image {
		note, steps = fmt.Sprintf("Copying disk %d", i+1), 10
	}
	for s := range steps {
		progress(100*(i*steps+s)/(n*steps), note)
		if err := h.step(ctx, 0.3); err != nil {
			return err
		}
	}
	return nil
}

// define makes the definition as the spec says; h.mu is held and check has passed.
func (h *Host) define(vm fleet.VM, pools []fleet.Pool) {
	g, ok := h.guests[vm.ID]
	if !ok {
		g = &guest{id: vm.ID, managed: true, name: vm.Name, power: fleet.Stopped}
		h.guests[vm.ID] = g
	}
	at := func(id fleet.PoolID, volume string) string {
		p, _ := h.active(id, pools) // check has found it a moment ago, under the same lock
		return path.Join(p.spec.Path, volume)
	}
	def := shape{cpus: vm.Spec.CPUs, memoryMiB: vm.Spec.MemoryMiB, firmware: vm.Spec.Firmware, nics: append([]fleet.NIC(nil), vm.Spec.NICs...)}
	for _, d := range vm.Spec.Disks {
		def.disks = append(def.disks, at(d.PoolID, d.Volume))
	}
	if vm.Spec.ISO != nil {
		def.iso = at(vm.Spec.ISO.PoolID, vm.Spec.ISO.Volume)
	}
	g.def, g.generation, g.wantName = def, vm.Generation, vm.Name
	if !g.on() {
		g.name = vm.Name
	}
}

// DeleteVM implements agent.Hypervisor.
func (h *Host) DeleteVM(ctx context.Context, vm fleet.VM, pools []fleet.Pool, disks bool) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	if err := h.step(ctx, 0.3); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[vm.ID]
	if ok && !g.managed {
		return foreign(g)
	}
	doomed, err := h.doomed(vm, pools, disks)
	if err != nil {
		return err
	}
	if ok {
		g.stop()
		delete(h.guests, vm.ID)
	}
	for _, d := range doomed {
		delete(d.in.files, d.Name)
	}
	h.notify()
	return nil
}

// doomed lists the volumes that go with the VM. A disk of another VM is refused; so is a pool that is not there, unless
// the VM is gone already: then its disks in that pool count as gone, too.
func (h *Host) doomed(vm fleet.VM, pools []fleet.Pool, disks bool) (out []newVolume, _ error) {
	if !disks {
		return nil, nil
	}
	for _, d := range vm.Spec.Disks {
		p, err := h.active(d.PoolID, pools)
		if _, here := h.guests[vm.ID]; err != nil && !here {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := h.free(path.Join(p.spec.Path, d.Volume), vm.ID); err != nil {
			return nil, err
		}
		out = append(out, newVolume{in: p.dir, file: file{Volume: fleet.Volume{Name: d.Volume}}})
	}
	return out, nil
}
