package fleet

import (
	"fmt"
	"strings"
)

// VMFirstBoot names the guest initialization of a VM. Its content is not part of the spec, as it may hold secrets: the
// portal stores it encrypted and sends it only to the VM's own host.
type VMFirstBoot struct {
	Kind FirstBootKind `json:"kind,omitempty"` // empty: none
	// Number is incremented with each new content, so that the guest repeats its per-instance steps.
	Number int `json:"number,omitempty"`
}

// FirstBootKind is the mechanism of guest initialization.
type FirstBootKind string

const (
	CloudInit   FirstBootKind = "cloud-init"   // from a form
	CloudConfig FirstBootKind = "cloud-config" // user-data as entered
	Ignition    FirstBootKind = "ignition"
	Sysprep     FirstBootKind = "sysprep"
)

// FirstBootKinds are the choices of FirstBootKind, in form order.
var FirstBootKinds = []Option{
	{"", "None"},
	{string(CloudInit), "cloud-init"},
	{string(CloudConfig), "cloud-init user-data"},
	{string(Ignition), "Ignition"},
	{string(Sysprep), "Windows answer file"},
}

// Bounds of a guest initialization.
const (
	MaxUserData      = 128 << 10 // bytes; also of an Ignition configuration and of an answer file
	MaxNetworkConfig = 32 << 10  // bytes
	MaxFirstUsers    = 32
	MaxFirstKeys     = 32 // per user
	MaxFirstKey      = 8 << 10
	MaxFirstPackages = 200
	MaxFirstCommands = 200
	MaxFirstCommand  = 8 << 10
	MaxFirstFiles    = 32
	MaxFirstFile     = 64 << 10
	MaxFirstNumber   = 1 << 30
)

// FirstBoot is the content of a guest initialization. Kind selects the used fields.
type FirstBoot struct {
	Kind      FirstBootKind  `json:"kind"`
	CloudInit *CloudInitForm `json:"cloudInit,omitempty"` // for cloud-init
	// YAML for cloud-config, JSON for Ignition, XML for an answer file
	UserData      string `json:"userData,omitempty"`
	NetworkConfig string `json:"networkConfig,omitempty"` // YAML for cloud-config; empty: DHCP on the first NIC
}

// WithoutBOM returns the content without byte order marks, which editors add: cloud-init would not recognize
// "#cloud-config" after one.
func (f FirstBoot) WithoutBOM() FirstBoot {
	const mark = "\ufeff"
	f.UserData, f.NetworkConfig = strings.TrimPrefix(f.UserData, mark), strings.TrimPrefix(f.NetworkConfig, mark)
	return f
}

// CloudInitForm is a form for the common settings of cloud-init.
type CloudInitForm struct {
	Hostname    string      `json:"hostname,omitempty"` // empty: the VM's name
	Timezone    string      `json:"timezone,omitempty"`
	Locale      string      `json:"locale,omitempty"`
	Users       []FirstUser `json:"users,omitempty"`       // empty: the image's default user
	SSHPassword bool        `json:"sshPassword,omitempty"` // allow SSH sign-in by password
	// Network: settings per NIC, in the VM's order; empty: DHCP on the first NIC
	Network  []FirstBootNIC `json:"network,omitempty"`
	Upgrade  bool           `json:"upgrade,omitempty"` // upgrade all packages
	Packages []string       `json:"packages,omitempty"`
	Files    []FirstFile    `json:"files,omitempty"`
	Run      []string       `json:"run,omitempty"` // shell commands, run as root in order
}

// FirstUser is a user that cloud-init creates, or the image's default user.
type FirstUser struct {
	Name         string   `json:"name,omitempty"` // empty: the image's default user
	SSHKeys      []string `json:"sshKeys,omitempty"`
	Password     string   `json:"password,omitempty"`     // only in requests: it is stored as a hash
	PasswordHash string   `json:"passwordHash,omitempty"` // crypt(3) hash: "$6$…"
	Sudo         bool     `json:"sudo,omitempty"`         // full sudo without a password
	Groups       []string `json:"groups,omitempty"`
	Shell        string   `json:"shell,omitempty"`
}

// FirstBootNIC is the guest's configuration of one NIC.
type FirstBootNIC struct {
	MAC       string   `json:"mac,omitempty"`       // set by the portal: MAC address of the VM's NIC at the same index
	Addresses []string `json:"addresses,omitempty"` // each with its prefix length, "192.0.2.10/24"; empty: DHCP
	Gateways  []string `json:"gateways,omitempty"`  // at most one IPv4 and one IPv6 address
	DNS       []string `json:"dns,omitempty"`
	Search    []string `json:"search,omitempty"`
}

// FirstFile is a file that cloud-init creates in the guest.
type FirstFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Mode    string `json:"mode,omitempty"`  // octal, "0644"
	Owner   string `json:"owner,omitempty"` // "user" or "user:group"
}

// Text returns the guest initialization as text.
func (f VMFirstBoot) Text() string {
	if f.Kind == "" {
		return "none"
	}
	words := f.Kind.Text()
	if f.Number > 1 {
		words += fmt.Sprintf(", version %d", f.Number)
	}
	return words
}

// Text returns the kind's text on forms.
func (k FirstBootKind) Text() string {
	for _, o := range FirstBootKinds {
		if o.Value == string(k) {
			return o.Text
		}
	}
	return string(k)
}

// UsesCloudInit reports whether cloud-init processes the kind.
func (k FirstBootKind) UsesCloudInit() bool { return k == CloudInit || k == CloudConfig }

// IsText reports whether the content is text as entered by the user.
func (k FirstBootKind) IsText() bool { return k == CloudConfig || k == Ignition || k == Sysprep }

// IsKnown reports whether the kind exists; the empty kind (none) does, too.
func (k FirstBootKind) IsKnown() bool {
	for _, o := range FirstBootKinds {
		if o.Value == string(k) {
			return true
		}
	}
	return false
}

func (f VMFirstBoot) check(c *Checks, field string) {
	if f.Kind == "" || !f.Kind.IsKnown() || f.Number < 1 || f.Number > MaxFirstNumber {
		c.Add(field, "First-boot data is separate from the VM's other values. Change it separately.")
	}
}

// firstBootField builds the spec's field for guest initialization. The VM form leaves it out, because guest
// initialization has a form of its own.
func firstBootField() Field[VMSpec] {
	f := valueFieldWithEqual("firstBoot", "first boot", WhenNextBoot, func(s *VMSpec) *VMFirstBoot { return &s.FirstBoot }, valueType[VMFirstBoot]{
		words: VMFirstBoot.Text,
		change: func(a, b VMFirstBoot) string {
			if a.Kind == b.Kind {
				return a.Kind.Text() + " replaced"
			}
			return a.Text() + " → " + b.Text()
		},
		equal: equal[VMFirstBoot],
	})
	f.Default = func(s VMSpec) bool { return s.FirstBoot == VMFirstBoot{} }
	f.check = func(c *Checks, field string, s VMSpec) {
		if !f.Default(s) {
			s.FirstBoot.check(c, field)
		}
	}
	return f
}
