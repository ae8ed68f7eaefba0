package fleet

import (
	"slices"
	"strings"
	"time"
)

// Plan is the preview of an edit or of a new VM. The portal computes the changes and when they take effect. The VM's
// host renders the definition, and its answer arrives later.
type Plan struct {
	ID        PlanID    `json:"id"`
	VMID      VMID      `json:"vmId,omitempty"` // empty: a new VM
	ProjectID ProjectID `json:"projectId"`
	HostID    HostID    `json:"hostId,omitempty"` // only for users who may see hosts
	HostName  string    `json:"hostName,omitempty"`
	Name      string    `json:"name"`
	Changes   []Change  `json:"changes"` // empty for a new VM
	State     PlanState `json:"state"`
	// Drawing is the difference that the host has computed for the plan; nil: the host has not answered yet.
	Drawing     *DefinitionDiff `json:"drawing,omitempty"`
	RequestedAt time.Time       `json:"askedAt"`
}

// PlanState is the progress of a plan.
type PlanState string

const (
	PlanRequested PlanState = "asked"  // waiting for the host
	PlanReady     PlanState = "drawn"  // the host has answered
	PlanFailed    PlanState = "failed" // the host would refuse the change
	PlanTimedOut  PlanState = "silent" // the host did not answer in time
)

// Deadline of the host's answer, and lifetime of a plan.
const (
	PlanTimeout  = 20 * time.Second
	PlanLifetime = time.Hour
)

// Bounds of a DefinitionDiff.
const (
	MaxDefinitionText = 256 << 10 // bytes of a definition
	MaxDiffLines      = 1500      // lines of a difference
	maxDiffLine       = 1000      // bytes of a line
)

// DefinitionDiff is the host's answer to a plan: the resulting definition as a difference to the current one.
type DefinitionDiff struct {
	Lines []DefinitionLine `json:"lines"`
	Left  int              `json:"left,omitempty"`  // number of lines cut off beyond MaxDiffLines
	Error string           `json:"error,omitempty"` // the host's message why it would refuse the definition
	// Hidden is the number of hidden lines: they describe the host, and the user may not see hosts.
	Hidden int `json:"hidden,omitempty"`
}

// DefinitionLine is one line of a definition's XML or of a difference.
type DefinitionLine struct {
	Op   LineOp `json:"op"`
	Text string `json:"text"`
	// At is the path of the element that starts or ends on the line: "devices/disk/source". Empty: none. It is not
	// shown to users.
	At string `json:"at,omitempty"`
}

// LineOp is the change of a line.
type LineOp string

const (
	LineSame    LineOp = "same"
	LineAdded   LineOp = "add"
	LineRemoved LineOp = "remove"
	LineGap     LineOp = "gap"    // unchanged lines that were left out
	LineHidden  LineOp = "hidden" // lines that the user may not see
)

// openElements are elements that describe only the guest, so every user who may edit the VM may read them. "*" matches
// any one element. All other elements may reveal details of the host: paths, programs, names of unmanaged objects.
var openElements = []string{
	"", "name", "uuid", "memory", "currentMemory", "maxMemory", "vcpu", "on_poweroff", "on_reboot", "on_crash",
	"cpu", "cpu/*", "cpu/numa/cell", "launchSecurity", "launchSecurity/policy", "os", "os/type", "os/boot", "os/bootmenu", "os/firmware", "os/firmware/feature", "features", "features/*",
	"clock", "clock/*", "pm", "pm/*", "memoryBacking", "memoryBacking/*", "memoryBacking/hugepages/page", "devices", "devices/disk", "devices/disk/driver", "devices/disk/target",
	"devices/disk/boot", "devices/disk/readonly", "devices/disk/shareable", "devices/disk/address",
	"devices/interface", "devices/interface/mac", "devices/interface/model", "devices/interface/mtu", "devices/interface/link", "devices/interface/boot", "devices/interface/address",
	"devices/controller", "devices/controller/address", "devices/input", "devices/graphics", "devices/video", "devices/video/model", "devices/sound", "devices/sound/audio", "devices/audio",
	"devices/watchdog", "devices/rng", "devices/rng/rate", "devices/memballoon", "devices/memballoon/stats", "devices/tpm", "devices/vsock", "devices/channel", "devices/channel/target",
	"devices/serial", "devices/serial/target", "devices/console", "devices/console/target",
}

func isDomainElementForUsers(at string) bool {
	parent, last := "", at
	if i := strings.LastIndexByte(at, '/'); i >= 0 {
		parent, last = at[:i], at[i+1:]
	}
	return slices.Contains(openElements, at) || last != "" && parent != "" && slices.Contains(openElements, parent+"/*")
}

// Bounded returns the difference, cut to the bounds. Hosts are not trusted to respect the bounds.
func (d DefinitionDiff) Bounded() DefinitionDiff {
	out := DefinitionDiff{Left: min(max(d.Left, 0), 1<<20), Error: StorableText(d.Error, 2000), Lines: []DefinitionLine{}}
	for _, l := range d.Lines {
		if len(out.Lines) == MaxDiffLines {
			out.Left++
			continue
		}
		if !slices.Contains([]LineOp{LineSame, LineAdded, LineRemoved, LineGap}, l.Op) {
			l.Op = LineSame
		}
		out.Lines = append(out.Lines, DefinitionLine{l.Op, StorableText(l.Text, maxDiffLine), StorableText(l.At, 200)})
	}
	return out
}

// StorableText returns the text without characters that PostgreSQL refuses, cut to n bytes.
func StorableText(text string, n int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n], "") + "…"
	}
	return text
}

// VisibleToUser returns the difference as the user may see it; users who may see hosts see every line. Hidden lines are
// replaced by a marker and counted.
func (d DefinitionDiff) VisibleToUser(seesHosts bool) DefinitionDiff {
	out := d
	out.Lines, out.Hidden = make([]DefinitionLine, 0, len(d.Lines)), 0
	for _, l := range d.Lines {
		open := seesHosts || l.Op == LineGap || strings.HasPrefix(strings.TrimSpace(l.Text), "<") && (l.At == "domain" || strings.HasPrefix(l.At, "domain/") && isDomainElementForUsers(strings.TrimPrefix(l.At, "domain/")))
		if l.At = ""; !open {
			out.Hidden++
			if n := len(out.Lines); n > 0 && out.Lines[n-1].Op == LineHidden {
				continue
			}
			l = DefinitionLine{Op: LineHidden}
		}
		out.Lines = append(out.Lines, l)
	}
	return out
}
