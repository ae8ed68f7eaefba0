package fleet

import (
	"slices"
	"strings"
	"time"
)

// Plan is what would become of a VM, before anybody does it: of an edit, or of a new VM. The portal knows what changes and when that takes effect;
// the VM's host is asked for the definition, and its answer comes later.
type Plan struct {
	ID        PlanID    `json:"id"`
	VMID      VMID      `json:"vmId,omitempty"` // empty: a new VM
	ProjectID ProjectID `json:"projectId"`
	HostID    HostID    `json:"hostId,omitempty"` // told to those who see hosts
	HostName  string    `json:"hostName,omitempty"`
	Name      string    `json:"name"`
	Changes   []Change  `json:"changes"` // none of a new VM
	State     PlanState `json:"state"`
	// Drawing is the host's answer; nil: there is none yet.
	Drawing     *Drawing  `json:"drawing,omitempty"`
	RequestedAt time.Time `json:"askedAt"`
}

// PlanState is how far a plan is.
type PlanState string

const (
	PlanRequested PlanState = "asked"  // the host has not answered yet
	PlanDrawn     PlanState = "drawn"  // it has
	PlanFailed    PlanState = "failed" // it has, and says why it would refuse
	PlanTimedOut  PlanState = "silent" // it has not answered in time
)

// How long a host has to answer, and how long a plan is kept.
const (
	PlanPatience = 20 * time.Second
	PlanLife     = time.Hour
)

// Bounds of a drawing.
const (
	MaxDrawnText  = 256 << 10 // bytes of a definition
	MaxDrawnLines = 1500      // lines of a difference
	maxDrawnLine  = 1000      // bytes of a line
)

// Drawing is what a host says of the definition that a plan would lead to.
type Drawing struct {
	Lines []DrawnLine `json:"lines"`
	Left  int         `json:"left,omitempty"`  // how many more lines there are
	Error string      `json:"error,omitempty"` // why the host would refuse it, in its words
	// Hidden is how many lines are not for who reads: they are about the host.
	Hidden int `json:"hidden,omitempty"`
}

// DrawnLine is one line of a definition's XML, or of the difference between two.
type DrawnLine struct {
	Op   LineOp `json:"op"`
	Text string `json:"text"`
	// At is the element that begins or ends on the line: "devices/disk/source"; empty: none does. Not told to people.
	At string `json:"at,omitempty"`
}

// LineOp is what becomes of a line.
type LineOp string

const (
	LineStays  LineOp = "same"
	LineComes  LineOp = "add"
	LineGoes   LineOp = "remove"
	LineGap    LineOp = "gap"    // lines that stay and are left out
	LineHidden LineOp = "hidden" // a line that is not for who reads
)

// openElements are those of a definition that everybody may read who may edit the VM: they say what the guest is, and nothing about its host. "*" is any
// one element. All else, what stands in an element that is not here, and what others add, is about the host: paths, names of others' things, programs.
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

func openElement(at string) bool {
	parent, last := "", at
	if i := strings.LastIndexByte(at, '/'); i >= 0 {
		parent, last = at[:i], at[i+1:]
	}
	return slices.Contains(openElements, at) || last != "" && parent != "" && slices.Contains(openElements, parent+"/*")
}

// Bounded is the drawing as far as it is kept: what a host sends is as long, and as odd, as the host likes.
func (d Drawing) Bounded() Drawing {
	out := Drawing{Left: min(max(d.Left, 0), 1<<20), Error: shortened(d.Error, 2000), Lines: []DrawnLine{}}
	for _, l := range d.Lines {
		if len(out.Lines) == MaxDrawnLines {
			out.Left++
			continue
		}
		if !slices.Contains([]LineOp{LineStays, LineComes, LineGoes, LineGap}, l.Op) {
			l.Op = LineStays
		}
		out.Lines = append(out.Lines, DrawnLine{l.Op, shortened(l.Text, maxDrawnLine), shortened(l.At, 200)})
	}
	return out
}

// shortened is text that a database takes, of n bytes at most.
func shortened(text string, n int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n], "") + "…"
	}
	return text
}

// Visible is the drawing as people read it: whole to who sees hosts. Of what is hidden it stands there that, and how much, it is.
func (d Drawing) Visible(seesHosts bool) Drawing {
	out := d
	out.Lines, out.Hidden = make([]DrawnLine, 0, len(d.Lines)), 0
	for _, l := range d.Lines {
		open := seesHosts || l.Op == LineGap || strings.HasPrefix(strings.TrimSpace(l.Text), "<") && (l.At == "domain" || strings.HasPrefix(l.At, "domain/") && openElement(strings.TrimPrefix(l.At, "domain/")))
		if l.At = ""; !open {
			out.Hidden++
			if n := len(out.Lines); n > 0 && out.Lines[n-1].Op == LineHidden {
				continue
			}
			l = DrawnLine{Op: LineHidden}
		}
		out.Lines = append(out.Lines, l)
	}
	return out
}
