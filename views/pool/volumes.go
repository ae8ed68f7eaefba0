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

// VolumeRow is a volume with the hosts that have it, and the VM whose disk it is.
type VolumeRow struct {
	fleet.Volume
	Shared    bool
	Hosts     []kit.Named
	Host      fleet.HostID // of a local pool: whose file
	VM        *kit.Named   // nil: of none
	Found     bool         // the VM is a discovered one
	Published *Published   // nil: tenants are not offered it
	Unfit     string       // why it cannot be published
	Orphan    bool         // nobody uses it
	// FetchUntil is when an export, which it is, goes by itself; nil: it is none.
	FetchUntil *time.Time
	Can        []fleet.ActionState
}

// id is that of the row: an open menu stays with its volume when others come and go.
func (v VolumeRow) id() string { return "volume-" + string(v.Host) + "-" + url.PathEscape(v.Name) }

// Volumes are what the tab shows.
type Volumes struct {
	Rows    []VolumeRow // of those that are asked for
	All     int
	Orphans int
	Wasted  int64 // bytes that the orphans take
	Only    bool  // the orphans are asked for alone
}

// OrphansOf counts the volumes that nobody uses, and keeps them alone where only they are asked for.
func OrphansOf(rows []VolumeRow, only bool) Volumes {
	out := Volumes{All: len(rows), Only: only}
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

func (v Volumes) orphansText() string {
	return kit.Count(v.Orphans, "orphan") + ", " + kit.Bytes(v.Wasted)
}

// Published says who let tenants use a volume.
type Published struct {
	By    string
	At    time.Time
	Stale string // why it is not offered nevertheless
}

// VolumesShown is how many volumes the page shows at once.
const VolumesShown = 200

func (p Page) volumePager() kit.Pager {
	out := kit.Pager{Text: kit.Count(len(p.Volumes.Rows), "volume")}
	if p.Last-p.First < len(p.Volumes.Rows) {
		out.Text = strconv.Itoa(p.First+1) + "–" + strconv.Itoa(p.Last) + " of " + out.Text
	}
	if p.First > 0 {
		out.First = p.Link.Without("from").String()
		out.Prev = p.Link.With("from", strconv.Itoa(max(0, p.First-VolumesShown))).String()
	}
	if p.Last < len(p.Volumes.Rows) {
		out.Next = p.Link.With("from", strconv.Itoa(p.Last)).String()
	}
	return out
}

func (p Published) who() string {
	if p.By == "" {
		return "Tenants may use it."
	}
	return "Tenants may use it: published by " + p.By + " on " + p.At.UTC().Format(time.DateOnly) + "."
}

// volumeActs is what can be asked about a volume.
func (p Page) volumeActs(v VolumeRow) []kit.Act {
	at := func(below ...string) string { return volumeAddress(p.path(below...), v.Name, v.Host) }
	publish := kit.Act{Icon: "globe", Word: "Publish to tenants", Post: at("publish"), Back: p.Link.String(), Apart: true}.Needs(p.Actor, policy.InfraChange).When(v.Unfit)
	withdraw := kit.Act{Icon: "lock", Word: "Withdraw from tenants", Post: at("withdraw"), Back: p.Link.String()}.Needs(p.Actor, policy.InfraChange)
	switch {
	case v.Published == nil:
		withdraw = withdraw.When("It is not published.")
	case v.Published.Stale == "":
		publish = publish.When("It is published.")
	}
	if len(v.Hosts) == 0 {
		publish = publish.When("No host that is heard has it now.")
	}
	act := func(icon, word, below string, action fleet.Action) kit.Act {
		return kit.Act{Icon: icon, Word: word, Href: at("volumes", below), Dialog: true}.Needs(p.Actor, policy.InfraChange).As(v.Can, action)
	}
	wipe, remove := act("circle-dashed", "Wipe", "wipe", fleet.ActWipe), act("trash-2", "Delete volume", "delete", fleet.ActDelete)
	wipe.Danger, remove.Danger = true, true
	if fleet.ApplianceKind(v.Name) != "" { // what makes a disk of it, instead of what is done to disks
		acts := []kit.Act{kit.Act{Icon: "plus", Word: "Make a VM of it", Href: importHref(p.Pool.ID, v.Host, v.Name)}.Needs(p.Actor, policy.InfraChange).As(v.Can, fleet.ActImport)}
		if v.Format != fleet.FormatOVA {
			acts = append(acts, act("refresh-cw", "Convert to qcow2", "convert", fleet.ActConvert))
		}
		return append(acts, act("pencil", "Rename", "rename", fleet.ActRename), kit.Act{Icon: "download", Word: "Download", Href: at("volumes", "content")}.Needs(p.Actor, policy.InfraChange).As(v.Can, fleet.ActDownload), remove)
	}
	return []kit.Act{
		act("expand", "Grow", "grow", fleet.ActGrow), act("copy", "Clone", "clone", fleet.ActClone), act("pencil", "Rename", "rename", fleet.ActRename),
		kit.Act{Icon: "download", Word: "Download", Href: at("volumes", "content")}.Needs(p.Actor, policy.InfraChange).As(v.Can, fleet.ActDownload), publish, withdraw, wipe, remove,
	}
}

// importHref is the form of a new VM that is made of the file.
func importHref(pool fleet.PoolID, host fleet.HostID, volume string) string {
	link := kit.Link{Path: "/vms/new"}.With("import", volume).With("pool", string(pool))
	if host != "" {
		link = link.With("host", string(host))
	}
	return link.String()
}

// volumeAddress is where something is asked about one volume. host: of a local pool, whose.
func volumeAddress(path, volume string, host fleet.HostID) string {
	link := kit.Link{Path: path}.With("volume", volume)
	if host != "" {
		link = link.With("host", string(host))
	}
	return link.String()
}

// place is where a volume is, for pools in which that is no path below one directory.
func (p Page) place(v VolumeRow) string {
	if p.Pool.Spec.Kind.Is().Files {
		return ""
	}
	return v.Path
}

// none says what a pool without volumes waits for.
func (p Page) none() string {
	switch is := p.Pool.Spec.Kind.Is(); {
	case is.Kind == "" || is.Files:
		return "Disks of VMs show here when they are made. Download images and ISOs by their addresses, or put them into the pool's directory; hosts find them by themselves. Then publish those that tenants may use."
	case is.Makes:
		return "Disks of VMs show here when they are made, and so does what others make there."
	}
	return "The storage shows none. Make one there; hosts find it by themselves."
}

func (p Page) newVolume() kit.Act { return p.volumeToCome("plus", "New volume", "new") }

func (p Page) fetchVolume() kit.Act {
	return p.volumeToCome("download", "Download by URL", "fetch")
}

func (p Page) volumeToCome(icon, word, below string) kit.Act {
	act := kit.Act{Icon: icon, Word: word, Href: p.path("volumes", below), Dialog: true}.Needs(p.Actor, policy.InfraChange)
	switch is := p.Pool.Spec.Kind.Is(); {
	case p.Pool.DeletedAt != nil:
		act = act.When("The pool is being deleted.")
	case is.Kind != "" && !is.Makes:
		act = act.When("Its volumes are as its storage has them: make them there, and hosts find them by themselves.")
	case is.Kind != "" && !is.Files && (below == "fetch" || below == "upload"):
		act = act.When("Images come into pools of files alone.")
	}
	return act
}

// volumeHosts says where a volume can be used, in short where that is everywhere.
func (p Page) volumeHosts(v VolumeRow) string {
	switch {
	case len(v.Hosts) == 0:
		return "on no host that is heard"
	case v.Shared && len(v.Hosts) > 1 && len(v.Hosts) == p.Pool.Health.Hosts:
		return "all hosts"
	}
	var names []string
	for _, h := range v.Hosts[:min(len(v.Hosts), hostsNamed)] {
		names = append(names, h.Name)
	}
	if n := len(v.Hosts) - hostsNamed; n > 0 {
		names = append(names, "and "+kit.Count(n, "more host"))
	}
	return strings.Join(names, ", ")
}
