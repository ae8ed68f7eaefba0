package libvirt

import (
	"context"
	"fmt"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent"
	"quantix/internal/fleet"
)

// ApplyVM implements agent.Hypervisor. Disks first, definition last: a domain never names a disk that is not whole.
func (b *Backend) ApplyVM(ctx context.Context, vm fleet.VM, pools []fleet.Pool, progress agent.Progress) error {
	act := "apply " + vm.Name
	unlock, err := b.vms.lock(ctx, vm.ID)
	if err != nil {
		return inAct(act, err)
	}
	defer unlock()
	return inAct(act, b.order(ctx, func(ctx context.Context, c *conn) error {
		a := applying{Backend: b, c: c, vm: vm, assigned: pools, progress: progress}
		return a.run(ctx)
	}))
}

// applying is one ApplyVM under way.
type applying struct {
	*Backend
	c        *conn
	vm       fleet.VM
	assigned []fleet.Pool
	progress agent.Progress
}

func (a *applying) run(ctx context.Context) error {
	old, err := a.existing(ctx)
	if err != nil {
		return err
	}
	in, places, err := a.intent()
	if err != nil {
		return err
	}
	if err := a.checkUsers(ctx, places); err != nil {
		return err
	}
	for i, p := range places {
		made, err := a.ensureDisk(ctx, p, i, len(places))
		if err == nil && !made && (old == nil || !slices.Contains(old.files(), p.path())) {
			err = checkDisk(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("disk %d: %w", i+1, err)
		}
		in.disks = append(in.disks, diskPlace{
			alias: diskAlias(fleet.Volref{PoolID: p.pool.ID, Volume: p.volume}), path: p.path(), direct: directWithin(ctx, p.path()),
		})
	}
	a.progress(100, "writing the definition")
	if old != nil {
		return a.redefine(ctx, *old, in)
	}
	x, err := a.first(ctx)
	if err != nil {
		return err
	}
	edit(x, in)
	return a.define(ctx, x)
}

// existing is the VM's domain; nil where there is none yet. A name or UUID that belongs to another is refused.
func (a *applying) existing(ctx context.Context) (*sighted, error) {
	s, err := a.seeOn(ctx, a.c, a.vm.ID)
	switch {
	case is(err, golibvirt.ErrNoDomain):
	case err != nil:
		return nil, err
	case !s.ours:
		return nil, notOurs(s.ref.Name)
	case s.ref.Name == a.vm.Name:
		return &s, nil
	}
	other, nameErr := call(ctx, a.c, func(l *golibvirt.Libvirt) (golibvirt.Domain, error) { return l.DomainLookupByName(a.vm.Name) })
	switch {
	case nameErr == nil:
		return nil, fleet.Errorf(fleet.Conflict, "The host has another domain named %q already (UUID %s). Give the VM another name, or rename that domain.", a.vm.Name, formatUUID(other.UUID))
	case !is(nameErr, golibvirt.ErrNoDomain):
		return nil, nameErr
	case err != nil:
		return nil, nil //nolint:nilerr // no domain of this UUID and none of this name
	}
	return &s, nil
}

// redefine writes the definition only where it differs. A guest that runs keeps its name until it is off: libvirt
// renames no other; the mark holds the name until then.
func (a *applying) redefine(ctx context.Context, old sighted, in intent) error {
	defer a.domains.forget(old.ref.UUID)
	if old.live == nil && old.ref.Name != in.name {
		err := a.c.do(ctx, func(l *golibvirt.Libvirt) error {
			_, err := l.DomainRename(old.ref, golibvirt.OptString{in.name}, 0)
			return err
		})
		if err != nil {
			return fmt.Errorf("rename %s: %w", old.ref.Name, err)
		}
		old.ref.Name = in.name
	}
	if old.ref.Name != in.name {
		in.mark.Name, in.name = in.name, old.ref.Name
	}
	// With what libvirt holds secret, else an administrator's VNC password would be lost by writing it back.
	x, err := readXML(ctx, a.c, old.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	before, err := x.Marshal()
	if err != nil {
		return err
	}
	edit(x, in)
	after, err := x.Marshal()
	if err != nil || before == after {
		return err
	}
	return a.define(ctx, x)
}

// first is the definition of a VM that the host has not had before.
func (a *applying) first(ctx context.Context) (*libvirtxml.Domain, error) {
	caps := a.caps.read(ctx, capsAge, capsForVM, a.readCapabilities)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !caps.known && caps.err != nil:
		return nil, fmt.Errorf("find out what guests the host can run: %w", caps.err)
	case !caps.known:
		return nil, fleet.Errorf(fleet.Unavailable, "libvirt has not yet found out what guests the host can run. Try again in a minute.")
	case len(caps.value.kinds) == 0:
		return nil, fleet.Errorf(fleet.Conflict, "libvirt finds no QEMU for %s guests on this host. Install qemu-system-x86 or qemu-kvm.", caps.value.arch)
	case a.vm.Spec.Firmware == fleet.UEFI && !slices.Contains(caps.value.firmware, fleet.UEFI):
		return nil, fleet.Errorf(fleet.Conflict, "The host has no UEFI firmware for guests. Install ovmf (edk2-ovmf), or choose BIOS.")
	}
	return newDefinition(a.vm.ID, caps.value.arch, caps.value.kinds[0]), nil
}

func (a *applying) define(ctx context.Context, x *libvirtxml.Domain) error {
	text, err := x.Marshal()
	if err != nil {
		return err
	}
	return a.c.do(ctx, func(l *golibvirt.Libvirt) error {
		ref, err := l.DomainDefineXML(text)
		if err == nil {
			a.domains.forget(ref.UUID)
		}
		return err
	})
}

// intent turns the spec into this host's paths.
func (a *applying) intent() (intent, []place, error) {
	in := intent{name: a.vm.Name, mark: mark{ID: a.vm.ID, Generation: a.vm.Generation}, spec: a.vm.Spec}
	for _, n := range a.vm.Spec.NICs {
		if n.MAC == "" {
			return in, nil, fleet.Errorf(fleet.Invalid, "A network card has no MAC address. Give it one.")
		}
	}
	var places []place
	for _, d := range a.vm.Spec.Disks {
		p, err := placeOf(fleet.Volref{PoolID: d.PoolID, Volume: d.Volume}, a.assigned)
		if err != nil {
			return in, nil, err
		}
		p.size = d.SizeBytes
		if d.Image != nil {
			image, err := placeOf(*d.Image, a.assigned)
			p.image, p.noImage = &image, err
		}
		places = append(places, p)
	}
	if a.vm.Spec.ISO != nil {
		iso, err := placeOf(*a.vm.Spec.ISO, a.assigned)
		if err != nil {
			return in, nil, err
		}
		in.iso = iso.path()
	}
	return in, places, nil
}

// checkUsers refuses disks that another domain of the host uses: two guests on one image destroy it.
func (a *applying) checkUsers(ctx context.Context, places []place) error {
	if len(places) == 0 {
		return nil
	}
	all, err := a.inventory(ctx, a.c)
	if err != nil {
		return err
	}
	for _, p := range places {
		if user := userOf(all, a.vm.ID, p.path()); user != "" {
			return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s is in use by %s. Choose another volume, or remove it there.", p.volume, p.pool.Name, user)
		}
	}
	return nil
}

// userOf is the name of a domain other than except that uses the file; empty: none.
func userOf(all []sighted, except fleet.VMID, path string) string {
	for _, s := range all {
		if s.id != except && slices.Contains(s.files(), path) {
			return s.ref.Name
		}
	}
	return ""
}
