package browse

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Published says who let tenants use a volume, and when.
type Published struct {
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	Stale string    `json:"stale,omitempty"` // why it is not offered nevertheless: it is another file by now
}

// Images lists the volumes that the actor may clone disks from: of no VM, self-contained, on a host that is heard. Tenants
// choose among what is published; who changes the infrastructure chooses freely.
func (b *Browse) Images(ctx context.Context, a fleet.Actor) ([]VolumeOn, error) {
	return b.usable(ctx, a, fleet.Volume.IsImage)
}

// ISOs lists the volumes that the actor may put into a CD-ROM drive, likewise.
func (b *Browse) ISOs(ctx context.Context, a fleet.Actor) ([]VolumeOn, error) {
	return b.usable(ctx, a, fleet.Volume.IsISO)
}

func (b *Browse) usable(ctx context.Context, a fleet.Actor, fits func(fleet.Volume) bool) ([]VolumeOn, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	var s statement
	s.and("p.deleted_at IS NULL AND ph.asked = 'assign'")
	all, err := b.volumes(ctx, a, s, func(v VolumeOn) bool { return len(v.Hosts) > 0 && fits(v.Volume) && !ownDisk.MatchString(v.Name) })
	return slices.DeleteFunc(all, func(v VolumeOn) bool { return v.VM != nil || !v.usableBy(a) }), err
}

// usableBy reports whether the actor may read from a volume that is nobody's disk.
func (v VolumeOn) usableBy(a fleet.Actor) bool {
	return v.offered() || policy.May(a, policy.InfraChange, "")
}

// offered reports whether tenants may use the volume.
func (v VolumeOn) offered() bool { return v.Published != nil && v.Published.Stale == "" }

// unfit is why the volume must not be published; empty: it may be.
func (v VolumeOn) unfit() string {
	switch {
	case v.VM != nil:
		return fmt.Sprintf("It is a disk of the VM %s. Copy it to another file to make an image of it.", v.VM.Name)
	case ownDisk.MatchString(v.Name):
		return "It bears the name of a VM's disk, and holds that VM's data. Copy it under another name to make an image of it."
	case v.Backing != "":
		return fmt.Sprintf("It refers to a backing file. Flatten it first: qemu-img convert -O qcow2 %s copy.qcow2.", v.Name)
	case !v.IsImage() && !v.IsISO():
		return "It is neither a qcow2 or raw image nor an ISO."
	}
	return ""
}

// line is one of the volumes' list.
type line struct {
	pool   fleet.PoolID
	volume string
	on     fleet.HostID
}

// images are what is published, by the line of the volume's list.
type images map[line]db.PublishedRow

func publishedOf(ctx context.Context, q *db.Queries, volumes []VolumeOn) (images, error) {
	var pools []string
	for _, v := range volumes {
		if id := string(v.PoolID); !slices.Contains(pools, id) {
			pools = append(pools, id)
		}
	}
	out := images{}
	if len(pools) == 0 {
		return out, nil
	}
	rows, err := q.Published(ctx, pools)
	if err != nil {
		return nil, store.Err(err)
	}
	for _, r := range rows {
		out[line{r.PoolID, r.Volume, fleet.HostID(r.Host)}] = r
	}
	return out, nil
}

// mark notes on the volume, whose owner is known, whether it is published, and whether it still is what was looked at then.
func (p images) mark(v *VolumeOn) {
	v.Unfit = v.unfit()
	r, ok := p[line{v.PoolID, v.Name, v.on}]
	if !ok {
		return
	}
	v.Published = &Published{By: r.PublishedBy, At: r.PublishedAt, Stale: v.Unfit}
	if v.Unfit == "" && (r.Format != v.Format || r.CapacityBytes != v.CapacityBytes) {
		v.Published.Stale = fmt.Sprintf("It is another file since: %s with %d bytes was published, and this is %s with %d. Look at it, and publish it again.",
			r.Format, r.CapacityBytes, v.Format, v.CapacityBytes)
	}
}
