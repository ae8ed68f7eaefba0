package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Published says who let tenants use a volume, and when.
type Published struct {
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	Stale string    `json:"stale,omitempty"` // why it is not offered nevertheless: it is another file by now
}

// Image names a volume that is to be published or withdrawn.
type Image struct {
	PoolID fleet.PoolID
	Volume string
	HostID fleet.HostID // of a local pool: whose file; empty: every host's that has it
}

// Images lists the volumes that the actor may clone disks from: of no VM, self-contained, on a host that is heard. Tenants
// choose among what is published; who changes the infrastructure chooses freely.
func (c *Control) Images(ctx context.Context, a fleet.Actor) ([]VolumeOn, error) {
	return c.usable(ctx, a, fleet.Volume.IsImage)
}

// ISOs lists the volumes that the actor may put into a CD-ROM drive, likewise.
func (c *Control) ISOs(ctx context.Context, a fleet.Actor) ([]VolumeOn, error) {
	return c.usable(ctx, a, fleet.Volume.IsISO)
}

func (c *Control) usable(ctx context.Context, a fleet.Actor, fits func(fleet.Volume) bool) ([]VolumeOn, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	var s statement
	s.and("p.deleted_at IS NULL AND ph.asked = 'assign'")
	all, err := c.volumes(ctx, a, s, func(v VolumeOn) bool { return len(v.Hosts) > 0 && fits(v.Volume) && !ownDisk.MatchString(v.Name) })
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

// images are what is published, by the line of the volume's list.
type images map[Image]db.PublishedRow

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
		return nil, dbError(err)
	}
	for _, r := range rows {
		out[Image{r.PoolID, r.Volume, fleet.HostID(r.Host)}] = r
	}
	return out, nil
}

// mark notes on the volume, whose owner is known, whether it is published, and whether it still is what was looked at then.
func (p images) mark(v *VolumeOn) {
	v.Unfit = v.unfit()
	r, ok := p[Image{v.PoolID, v.Name, v.on}]
	if !ok {
		return
	}
	v.Published = &Published{By: r.PublishedBy, At: r.PublishedAt, Stale: v.Unfit}
	if v.Unfit == "" && (r.Format != v.Format || r.CapacityBytes != v.CapacityBytes) {
		v.Published.Stale = fmt.Sprintf("It is another file since: %s with %d bytes was published, and this is %s with %d. Look at it, and publish it again.",
			r.Format, r.CapacityBytes, v.Format, v.CapacityBytes)
	}
}

// PublishImage lets tenants clone a volume, or put it into a drive, as it is now.
func (c *Control) PublishImage(ctx context.Context, a fleet.Actor, in Image) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	all, err := c.PoolVolumes(ctx, a, in.PoolID)
	if err != nil {
		return err
	}
	lines := slices.DeleteFunc(all, func(v VolumeOn) bool { return v.Name != in.Volume || in.HostID != "" && v.on != in.HostID })
	if len(lines) == 0 {
		return fleet.Errorf(fleet.NotFound, "The pool has no volume %q there.", in.Volume)
	}
	for _, v := range lines {
		switch {
		case v.Unfit != "":
			return fleet.Errorf(fleet.Conflict, "%s cannot be published. %s", v.Name, v.Unfit)
		case len(v.Hosts) == 0:
			return fleet.Errorf(fleet.Conflict, "%s cannot be published now: no host that is heard has it.", v.Name)
		}
	}
	return storagePools.change(ctx, c, a, string(in.PoolID), func(q *db.Queries, pool object) error {
		for _, v := range lines {
			err := q.PublishImage(ctx, db.PublishImageParams{
				PoolID: in.PoolID, Host: string(v.on), Volume: v.Name, Format: v.Format, CapacityBytes: v.CapacityBytes, PublishedBy: a.Name,
			})
			if err != nil {
				return err
			}
		}
		return audit(ctx, q, a, "image.publish", pool.subject(), pool.name, in.words())
	})
}

// WithdrawImage takes a volume from tenants. Clones and drives that have it keep it.
func (c *Control) WithdrawImage(ctx context.Context, a fleet.Actor, in Image) error {
	return storagePools.change(ctx, c, a, string(in.PoolID), func(q *db.Queries, pool object) error {
		n, err := q.WithdrawImage(ctx, db.WithdrawImageParams{PoolID: in.PoolID, Volume: in.Volume, Host: string(in.HostID)})
		if err != nil {
			return err
		}
		if n == 0 {
			return fleet.Errorf(fleet.NotFound, "%q is not published.", in.Volume)
		}
		return audit(ctx, q, a, "image.withdraw", pool.subject(), pool.name, in.words())
	})
}

func (in Image) words() string {
	if in.HostID == "" {
		return in.Volume
	}
	return in.Volume + " on host " + string(in.HostID)
}
