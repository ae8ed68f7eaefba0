package pool

import (
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// VolumeForm is what a person typed about a volume.
type VolumeForm struct {
	Name, Format, Size, Host, Confirm string
	URL, Checksum, ChecksumURL, File  string
	Full, Overcommit                  bool
}

// VolumePage is a dialog about a volume that there is, or that is to come.
type VolumePage struct {
	Pool   fleet.PoolView
	Volume fleet.VolumeUse
	Host   fleet.HostID     // of a local pool: whose file
	Hosts  []fleet.PoolHost // of a local pool: where a new one can be
	In     VolumeForm
	Start  fleet.StartImage // that fills the form of a download; zero: none
	Starts []fleet.StartImageView
	Errors kit.Errors
}

// Back is where the dialog came from.
func (p VolumePage) Back() string { return views.TabPath(views.PoolPath(p.Pool.ID), "volumes") }

func (p VolumePage) action(act string) string {
	return volumeAddress(views.PoolPath(p.Pool.ID, "volumes", act), p.Volume.Name, p.Host)
}

// asks is a dialog that does something to a volume.
func (p VolumePage) asks(title, act, button string, action fleet.Action, danger bool) kit.Dialog {
	return kit.Dialog{Title: title, Action: p.action(act), Button: button, Danger: danger, Why: kit.WhyNot(p.Volume.Allows(action)), Back: p.Back()}
}

// startAt is the form of a download with a well-known image in it.
func (p VolumePage) startAt(i fleet.StartImageView) string {
	return kit.Link{Path: views.PoolPath(p.Pool.ID, "volumes", "fetch")}.With("start", string(i.ID)).String()
}

// curl is how a terminal sends a file.
func (p VolumePage) curl() string {
	return "curl -T FILE -H 'Authorization: Bearer TOKEN' 'https://PORTAL/api/v1/pools/" + string(p.Pool.ID) + "/uploads/NAME'"
}

// checksumHint says what is at stake, and of a well-known image why its checksum is not filled in.
func checksumHint(p VolumePage) string {
	const stake = " Without it, whoever has that server, or its name, decides what your VMs run."
	if p.Start.ChecksumURL != "" {
		return "It is another for each build of " + p.Start.Name + ": the host reads it from the address above."
	}
	return "Copy it from a page that you trust." + stake
}

func hostChoice(h fleet.PoolHost) string {
	if h.State == fleet.PoolActive {
		return h.HostName
	}
	return h.HostName + ": " + h.State.Word()
}

// formats are those that a new volume can have.
func (p VolumePage) formats() []string {
	if p.Pool.Spec.Kind.Is().Files {
		return fleet.VolumeFormats
	}
	return []string{"raw"}
}

func (p VolumePage) nameHint() string {
	if p.Pool.Spec.Kind.Is().Files {
		return "The name of its file in the pool, such as data.qcow2"
	}
	return "Its name in the storage, such as data"
}
