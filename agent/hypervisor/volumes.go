package hypervisor

import (
	"context"
	"encoding/hex"
	"io"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// PoolPlaceTaken refuses a pool at a place where the host has a pool of another name. where may be empty: unknown.
func PoolPlaceTaken(other, where string) error {
	if where != "" {
		where = " (" + where + ")"
	}
	return fleet.Errorf(fleet.Conflict, "The host has a storage pool named %q at this place already%s, and libvirt lets no second one be there. "+
		"Name the pool %[1]s to use that one, or choose another place.", other, where)
}

// Arrived is a file received from another host.
type Arrived struct {
	Bytes int64
	Sum   transfer.Sum
}

// SHA256 returns the sum in hexadecimal, as in reports.
func (a Arrived) SHA256() string { return hex.EncodeToString(a.Sum[:]) }

// Sent delivers the connections that carry an upload's bytes.
type Sent <-chan io.ReadWriteCloser

// VolumeWork is an order for one volume.
type VolumeWork struct {
	Pool  fleet.Pool
	Name  string
	Order fleet.VolumeOrder
	// Source is the source's pool if it is another pool.
	Source *fleet.Pool
	Pools  []fleet.Pool // export: the pools of the disks
	// Hashed receives computed checksums. Its error ends the order.
	Hashed func(...Hashed) error
	Made   string // the file that an earlier attempt of this order reported to Whole; empty: none
	// Whole receives the new file as soon as its content is complete, before it gets the volume's name. Its error ends
	// the order.
	Whole    func(file string) error
	Progress Progress
	Sent     Sent // upload: the incoming data
	// Send sends a file to another host and returns once that host has all of it.
	Send func(ctx context.Context, pieces transfer.Pieces, size int64) error
	// Arrive writes a file of another host into dst, at most room bytes of data. It may truncate dst and start again.
	Arrive func(ctx context.Context, dst transfer.Sink, room int64) (Arrived, error)
}

// Ref names the volume.
func (w VolumeWork) Ref() fleet.Volref { return fleet.Volref{PoolID: w.Pool.ID, Volume: w.Name} }

// Downloaded formats the progress of a download for people.
func Downloaded(done, total, rate int64) (percent int, note string) {
	note = fleet.Bytes(done)
	if total > 0 {
		percent, note = int(min(99, float64(done)/float64(total)*100)), note+" of "+fleet.Bytes(total)
	}
	if rate > 0 {
		note += ", " + fleet.Bytes(rate) + "/s"
	}
	return percent, note
}

// Reasons to refuse a volume order, shared by both backends.

// VolumeTaken refuses to create a volume in place of an existing one.
func VolumeTaken(name, pool string) error {
	return fleet.Errorf(fleet.Conflict, "The pool %s has a volume named %s already. It is left as it is; choose another name.", pool, name)
}

// NoVolume reports that no volume has that name.
func NoVolume(name, pool string) error {
	return fleet.Errorf(fleet.NotFound, "The pool %s has no volume named %s on this host.", pool, name)
}

// GrowsWhileOn refuses to grow an encrypted disk of a VM that is off: only QEMU has its passphrase.
func GrowsWhileOn(name string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is encrypted, so it grows while its guest runs. Start the VM, and grow it then.", name)
}

// VolumeUsed refuses a volume that a domain of the host uses.
func VolumeUsed(name, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is in use by the VM %s on this host. Detach it there first.", name, domain)
}

// VolumeRuns refuses to read a volume that a running guest writes.
func VolumeRuns(name, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The VM %s runs with the volume %s, so a copy would not be whole. Shut the VM down first.", domain, name)
}

// VolumeBase refuses a volume that backs another one.
func VolumeBase(name, other string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s stands on %s and would be broken. Flatten or delete that one first.", other, name)
}

// VolumeNamed refuses a new name in pools whose volumes cannot be renamed.
func VolumeNamed(pool string) error {
	return fleet.Errorf(fleet.Conflict, "libvirt cannot rename volumes of the pool %s. Clone the volume under the new name, and delete this one.", pool)
}

// VolumeNoFile refuses to send a volume of a block pool.
func VolumeNoFile(pool string) error {
	return fleet.Errorf(fleet.Conflict, "The volumes of the pool %s are no files, so they are not sent. Copy them with the tools of their storage.", pool)
}

// VolumeOnOthers refuses to send a volume without its backing file.
func VolumeOnOthers(name, other string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s stands on %s, so what is in it alone would be no whole volume. Make an image of the VM that has it: that has all in one file.", name, other)
}

// VolumeRaw refuses to make an image of a raw disk whose content looks like another format: readers of the image would
// detect that format.
func VolumeRaw(name, format string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is a raw disk, and what its guest wrote there reads as the format %s, so no image is made of it. "+
		"Give the VM a disk of the usual format, and copy the data in the guest.", name, format)
}

// VolumeEnding refuses a name whose suffix suggests another format than the file has, or than the guest's data looks
// like.
func VolumeEnding(name, format string) error {
	if fleet.IsRawName(name) {
		return fleet.Errorf(fleet.Conflict, "What is to be named %s has the format %s, and names that end in .raw are for raw disks. Choose another name.", name, format)
	}
	return fleet.Errorf(fleet.Conflict, "What is to be named %s is a raw disk, and what its guest wrote there reads as the format %s. Choose a name that ends in .raw, so that it stays a raw disk.", name, format)
}

// VolumeShrinks refuses to shrink a volume.
func VolumeShrinks(name string, has, asked int64) error {
	return fleet.Errorf(fleet.Invalid, "The volume %s has %d bytes, more than the %d asked for. A volume only grows.", name, has, asked)
}
