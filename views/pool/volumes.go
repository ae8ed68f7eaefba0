package pool

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
)

// VolumeRow is a volume with its hosts and the VM that uses it as a disk.
type VolumeRow struct {
	fleet.Volume
	Shared           bool
	Hosts            []kit.NamedLink
	Host             fleet.HostID       // host with the volume, in a local pool
	VM               *kit.NamedLink     // nil: no VM uses the volume
	Discovered       bool               // the VM is unmanaged
	Published        *VolumePublication // nil: not offered to tenants
	WhyUnpublishable string             // why the volume cannot be published
	Orphan           bool               // nothing uses the volume
	// time at which an export is deleted automatically; nil if the volume is not an export
	FetchUntil   *time.Time
	ActionStates []fleet.ActionState
}

// id is the row's element id. It does not depend on other rows, so an open menu stays with its volume when they change.
func (v VolumeRow) id() string { return "volume-" + string(v.Host) + "-" + url.PathEscape(v.Name) }

// VolumesTab are the rows of the volumes tab.
type VolumesTab struct {
	Rows        []VolumeRow // rows after the filter
	All         int
	Orphans     int
	Wasted      int64 // bytes of the unused volumes
	OrphansOnly bool  // only unused volumes are shown
}

// NewVolumesTab returns the rows, and the number and total size of unused volumes. If only is true, it omits
// volumes in use.
func NewVolumesTab(rows []VolumeRow, only bool) VolumesTab {
	out := VolumesTab{All: len(rows), OrphansOnly: only}
	for _, v := range rows {
		if v.Orphan {
			out.Orphans++
			out.Wasted = fleet.AddBytes(out.Wasted, v.AllocBytes)
		}
		if v.Orphan || !only {
			out.Rows = append(out.Rows, v)
		}
	}
	return out
}

func (v VolumesTab) unusedVolumesText() string {
	return kit.CountText(v.Orphans, "orphan") + ", " + kit.Bytes(v.Wasted)
}

// VolumePublication describes who published a volume to tenants, and when.
type VolumePublication struct {
	By          string
	At          time.Time
	WhyUnusable string // why tenants cannot use the published volume now
}

// MaxVolumesShown is how many volumes one page shows.
const MaxVolumesShown = 200

func (p Page) volumePager() kit.Pager {
	out := kit.Pager{Text: kit.CountText(len(p.Volumes.Rows), "volume")}
	if p.Last-p.First < len(p.Volumes.Rows) {
		out.Text = strconv.Itoa(p.First+1) + "–" + strconv.Itoa(p.Last) + " of " + out.Text
	}
	if p.First > 0 {
		out.First = p.Link.Without("from").String()
		out.Prev = p.Link.With("from", strconv.Itoa(max(0, p.First-MaxVolumesShown))).String()
	}
	if p.Last < len(p.Volumes.Rows) {
		out.Next = p.Link.With("from", strconv.Itoa(p.Last)).String()
	}
	return out
}

func (p VolumePublication) text() string {
	if p.By == "" {
		return "Tenants can use the volume."
	}
	return "Tenants can use the volume: published by " + p.By + " on " + p.At.UTC().Format(time.DateOnly) + "."
}

// volumeActions are the actions on a volume.
func (p Page) volumeActions(v VolumeRow) []kit.ActionButton {
	at := func(below ...string) string { return volumeActionPath(p.path(below...), v.Name, v.Host) }
	publish := kit.ActionButton{Icon: "globe", Word: "Publish to tenants", Post: at("publish"), Back: p.Link.String(), Separated: true}.RequirePermission(p.Actor, policy.InfraChange).DisableFor(v.WhyUnpublishable)
	withdraw := kit.ActionButton{Icon: "lock", Word: "Withdraw from tenants", Post: at("withdraw"), Back: p.Link.String()}.RequirePermission(p.Actor, policy.InfraChange)
	switch {
	case v.Published == nil:
		withdraw = withdraw.DisableFor("The volume is not published.")
	case v.Published.WhyUnusable == "":
		publish = publish.DisableFor("The volume is published.")
	}
	if len(v.Hosts) == 0 {
		publish = publish.DisableFor("No online host has it now.")
	}
	act := func(icon, word, below string, action fleet.Action) kit.ActionButton {
		return kit.ActionButton{Icon: icon, Word: word, Href: at("volumes", below), Dialog: true}.RequirePermission(p.Actor, policy.InfraChange).WithReasonFrom(v.ActionStates, action)
	}
	wipe, remove := act("circle-dashed", "Wipe", "wipe", fleet.ActWipe), act("trash-2", "Delete volume", "delete", fleet.ActDelete)
	wipe.Danger, remove.Danger = true, true
	if fleet.ApplianceFormatByName(v.Name) != "" { // appliance files can be imported; disk actions do not apply to them
		acts := []kit.ActionButton{kit.ActionButton{Icon: "plus", Word: "Create VM from appliance", Href: importFormPath(p.Pool.ID, v.Host, v.Name)}.RequirePermission(p.Actor, policy.InfraChange).WithReasonFrom(v.ActionStates, fleet.ActImport)}
		if v.Format != fleet.FormatOVA {
			acts = append(acts, act("refresh-cw", "Convert to qcow2", "convert", fleet.ActConvert))
		}
		return append(acts, act("pencil", "Rename", "rename", fleet.ActRename), kit.ActionButton{Icon: "download", Word: "Download", Href: at("volumes", "content")}.RequirePermission(p.Actor, policy.InfraChange).WithReasonFrom(v.ActionStates, fleet.ActDownload), remove)
	}
	return []kit.ActionButton{
		act("expand", "Grow", "grow", fleet.ActGrow), act("copy", "Clone", "clone", fleet.ActClone), act("pencil", "Rename", "rename", fleet.ActRename),
		kit.ActionButton{Icon: "download", Word: "Download", Href: at("volumes", "content")}.RequirePermission(p.Actor, policy.InfraChange).WithReasonFrom(v.ActionStates, fleet.ActDownload), publish, withdraw, wipe, remove,
	}
}

// importFormPath is the address of the form that imports a VM from the file.
func importFormPath(pool fleet.PoolID, host fleet.HostID, volume string) string {
	link := kit.Link{Path: "/vms/new"}.With("import", volume).With("pool", string(pool))
	if host != "" {
		link = link.With("host", string(host))
	}
	return link.String()
}

// volumeActionPath is the address of an action on one volume. The host is set for a local pool.
func volumeActionPath(path, volume string, host fleet.HostID) string {
	link := kit.Link{Path: path}.With("volume", volume)
	if host != "" {
		link = link.With("host", string(host))
	}
	return link.String()
}

// blockVolumePath is the path of a volume that is no file. It is empty for a file, which is in the pool's directory.
func (p Page) blockVolumePath(v VolumeRow) string {
	if p.Pool.Spec.Kind.Info().FilePool {
		return ""
	}
	return v.Path
}

// noVolumesText is the text of a pool without volumes.
func (p Page) noVolumesText() string {
	switch is := p.Pool.Spec.Kind.Info(); {
	case is.Kind == "" || is.FilePool:
		return "Disks of VMs appear here. Download images and ISOs from URLs, or copy them into the pool's directory: hosts detect them. Then publish the volumes that tenants can use."
	case is.CreatesVolumes:
		return "Disks of VMs appear here, and volumes created outside Quantix."
	}
	return "The storage has no volumes. Create one there; hosts detect it."
}

func (p Page) createVolumeAction() kit.ActionButton {
	return p.newVolumeAction("plus", "New volume", "new")
}

func (p Page) downloadVolumeAction() kit.ActionButton {
	return p.newVolumeAction("download", "Download by URL", "fetch")
}

func (p Page) newVolumeAction(icon, word, below string) kit.ActionButton {
	act := kit.ActionButton{Icon: icon, Word: word, Href: p.path("volumes", below), Dialog: true}.RequirePermission(p.Actor, policy.InfraChange)
	switch is := p.Pool.Spec.Kind.Info(); {
	case p.Pool.DeletedAt != nil:
		act = act.DisableFor("The pool is being deleted.")
	case is.Kind != "" && !is.CreatesVolumes:
		act = act.DisableFor("Volumes of this pool are created on the storage; hosts detect them.")
	case is.Kind != "" && !is.FilePool && (below == "fetch" || below == "upload"):
		act = act.DisableFor("Only file pools hold images.")
	}
	return act
}

// volumeHostsText names the hosts where a volume can be used: "all hosts", or the first hosts by name.
func (p Page) volumeHostsText(v VolumeRow) string {
	switch {
	case len(v.Hosts) == 0:
		return "on no online host"
	case v.Shared && len(v.Hosts) > 1 && len(v.Hosts) == p.Pool.Health.Hosts:
		return "all hosts"
	}
	var names []string
	for _, h := range v.Hosts[:min(len(v.Hosts), maxHostsNamed)] {
		names = append(names, h.Name)
	}
	if n := len(v.Hosts) - maxHostsNamed; n > 0 {
		names = append(names, "and "+kit.CountText(n, "more host"))
	}
	return strings.Join(names, ", ")
}
