package pool

import (
	"quantix/internal/catalog"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// VolumeForm holds the values that a person typed in a volume's dialog.
type VolumeForm struct {
	Name, Format, Size, Unit, Host, Confirm string
	URL, Checksum, ChecksumURL, File        string
	Full, Overcommit                        bool
}

// VolumePage is a dialog about a new or existing volume.
type VolumePage struct {
	Pool   fleet.PoolView
	Volume fleet.VolumeUse
	Host   fleet.HostID     // host with the volume, in a local pool
	Hosts  []fleet.PoolHost // hosts that can hold a new volume, in a local pool
	In     VolumeForm
	Start  catalog.Image // catalog entry that fills the form of a download; zero: none
	Starts []catalog.View
	Errors kit.Errors
}

// BackPath is the address of the page that opened the dialog.
func (p VolumePage) BackPath() string { return views.TabPath(views.PoolPath(p.Pool.ID), "volumes") }

func (p VolumePage) actionPath(act string) string {
	return volumeActionPath(views.PoolPath(p.Pool.ID, "volumes", act), p.Volume.Name, p.Host)
}

// actionDialog is the dialog that confirms an action on a volume.
func (p VolumePage) actionDialog(title, act, button string, action fleet.Action, danger bool) kit.Dialog {
	return kit.Dialog{Title: title, Action: p.actionPath(act), Button: button, Danger: danger, Why: kit.RefusalReason(p.Volume.Allows(action)), Back: p.BackPath()}
}

// downloadFormPath is the address of the download form, filled from a catalog image.
func (p VolumePage) downloadFormPath(i catalog.View) string {
	return kit.Link{Path: views.PoolPath(p.Pool.ID, "volumes", "fetch")}.With("start", string(i.ID)).String()
}

// uploadCommand is the shell command that uploads a file.
func (p VolumePage) uploadCommand() string {
	return "curl -T FILE -H 'Authorization: Bearer TOKEN' 'https://PORTAL/api/v1/pools/" + string(p.Pool.ID) + "/uploads/NAME'"
}

// checksumHint explains why a checksum is useful. For a catalog image, it explains why the checksum is not filled in.
func checksumHint(p VolumePage) string {
	const stake = " Without a checksum, an attacker who controls the server or its DNS name decides what your VMs run."
	if p.Start.ChecksumURL != "" {
		return "The checksum differs for each build of " + p.Start.Name + ": the host downloads it from the address above."
	}
	return "Copy the checksum from a page that you trust." + stake
}

func hostFreeSpaceText(h fleet.PoolHost) string {
	if h.State == fleet.PoolActive {
		return h.HostName
	}
	return h.HostName + ": " + h.State.DisplayName()
}

// formatOptions are the possible formats of a new volume.
func (p VolumePage) formatOptions() []string {
	if p.Pool.Spec.Kind.Info().FilePool {
		return fleet.VolumeFormats
	}
	return []string{"raw"}
}

func (p VolumePage) nameHint() string {
	if p.Pool.Spec.Kind.Info().FilePool {
		return "File name in the pool, such as data.qcow2"
	}
	return "Volume name on the storage, such as data"
}
