package fleet

import (
	"fmt"
	"strings"
)

// VMFirstBoot is which first boot a VM's guest gets. What it says is no part of a spec, as it may hold secrets: its portal keeps it sealed,
// and hands it to the VM's own host alone.
type VMFirstBoot struct {
	Kind   FirstBootKind `json:"kind,omitempty"`   // empty: none
	Number int           `json:"number,omitempty"` // raised each time that it is given anew: a guest does again what it does once an instance
}

// FirstBootKind is how a guest is told what to make of itself when it first starts.
type FirstBootKind string

const (
	CloudInit   FirstBootKind = "cloud-init"   // filled in as a form
	CloudConfig FirstBootKind = "cloud-config" // user-data as it is
	Ignition    FirstBootKind = "ignition"
	Sysprep     FirstBootKind = "sysprep"
)

// FirstBootKinds are those that there are, in the order in which people choose from them.
var FirstBootKinds = []Option{
	{"", "None"},
	{string(CloudInit), "cloud-init"},
	{string(CloudConfig), "cloud-init user-data"},
	{string(Ignition), "Ignition"},
	{string(Sysprep), "Windows answer file"},
}

// Bounds of what a first boot says.
const (
	MaxUserData      = 128 << 10 // bytes, also of an Ignition configuration and of an answer file
	MaxNetworkConfig = 32 << 10  // bytes
	MaxFirstUsers    = 32
	MaxFirstKeys     = 32 // of a user
	MaxFirstKey      = 8 << 10
	MaxFirstPackages = 200
	MaxFirstCommands = 200
	MaxFirstCommand  = 8 << 10
	MaxFirstFiles    = 32
	MaxFirstFile     = 64 << 10
	MaxFirstNumber   = 1 << 30
)

// FirstBoot is what the guest is told. One of its parts is used, as Kind says.
type FirstBoot struct {
	Kind          FirstBootKind  `json:"kind"`
	CloudInit     *CloudInitForm `json:"cloudInit,omitempty"`     // of cloud-init
	UserData      string         `json:"userData,omitempty"`      // YAML of cloud-config, JSON of Ignition, XML of an answer file
	NetworkConfig string         `json:"networkConfig,omitempty"` // YAML of cloud-config; empty: DHCP on the first card
}

// WithoutBOM is the first boot without the byte order marks that editors write before texts: cloud-init would not know its "#cloud-config".
func (f FirstBoot) WithoutBOM() FirstBoot {
	const mark = "\ufeff"
	f.UserData, f.NetworkConfig = strings.TrimPrefix(f.UserData, mark), strings.TrimPrefix(f.NetworkConfig, mark)
	return f
}

// CloudInitForm is what most people want of cloud-init.
type CloudInitForm struct {
	Hostname    string         `json:"hostname,omitempty"` // empty: the VM's name
	Timezone    string         `json:"timezone,omitempty"`
	Locale      string         `json:"locale,omitempty"`
	Users       []FirstUser    `json:"users,omitempty"`       // empty: the image's default user, as the image has it
	SSHPassword bool           `json:"sshPassword,omitempty"` // users with a password may sign in by it over SSH
	Network     []FirstBootNIC `json:"network,omitempty"`     // of the VM's cards, in their order; empty: DHCP on the first
	Upgrade     bool           `json:"upgrade,omitempty"`     // all packages
	Packages    []string       `json:"packages,omitempty"`
	Files       []FirstFile    `json:"files,omitempty"`
	Run         []string       `json:"run,omitempty"` // commands for the shell, one after the other, as root
}

// FirstUser is a user that the guest makes, or the image's default user.
type FirstUser struct {
	Name         string   `json:"name,omitempty"` // empty: the image's default user
	SSHKeys      []string `json:"sshKeys,omitempty"`
	Password     string   `json:"password,omitempty"`     // only ever given: it is kept hashed
	PasswordHash string   `json:"passwordHash,omitempty"` // as crypt(3) has it: "$6$…"
	Sudo         bool     `json:"sudo,omitempty"`         // may do all, without a password
	Groups       []string `json:"groups,omitempty"`
	Shell        string   `json:"shell,omitempty"`
}

// FirstBootNIC is how the guest sets up one network card.
type FirstBootNIC struct {
	MAC       string   `json:"mac,omitempty"`       // set by the portal: of the VM's card in the same place
	Addresses []string `json:"addresses,omitempty"` // each with its prefix, "192.0.2.10/24"; empty: by DHCP
	Gateways  []string `json:"gateways,omitempty"`  // one of IPv4, one of IPv6
	DNS       []string `json:"dns,omitempty"`
	Search    []string `json:"search,omitempty"`
}

// FirstFile is a file that the guest makes.
type FirstFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Mode    string `json:"mode,omitempty"`  // octal, "0644"
	Owner   string `json:"owner,omitempty"` // "user" or "user:group"
}

// Words are the first boot in words.
func (f VMFirstBoot) Words() string {
	if f.Kind == "" {
		return "none"
	}
	words := f.Kind.Words()
	if f.Number > 1 {
		words += fmt.Sprintf(", given %d times", f.Number)
	}
	return words
}

// Words are the kind as people choose it.
func (k FirstBootKind) Words() string {
	for _, o := range FirstBootKinds {
		if o.Value == string(k) {
			return o.Text
		}
	}
	return string(k)
}

// ByCloudInit reports whether cloud-init reads it.
func (k FirstBootKind) ByCloudInit() bool { return k == CloudInit || k == CloudConfig }

// Raw reports whether it is a text as people wrote it.
func (k FirstBootKind) Raw() bool { return k == CloudConfig || k == Ignition || k == Sysprep }

// Known reports whether there is such a kind; none is known, too.
func (k FirstBootKind) Known() bool {
	for _, o := range FirstBootKinds {
		if o.Value == string(k) {
			return true
		}
	}
	return false
}

func (f VMFirstBoot) check(c *Checks, field string) {
	if f.Kind == "" || !f.Kind.Known() || f.Number < 1 || f.Number > MaxFirstNumber {
		c.Add(field, "The first boot is not given with the VM's other values: give it by itself.")
	}
}

// firstBoot is the field of a spec that says which first boot there is. No form of a VM has it: it has one of its own.
func firstBoot() Field[VMSpec] {
	f := valueAs("firstBoot", "first boot", NextBoot, func(s *VMSpec) *VMFirstBoot { return &s.FirstBoot }, VMFirstBoot.Words,
		func(a, b VMFirstBoot) string {
			if a.Kind == b.Kind {
				return a.Kind.Words() + " given anew"
			}
			return a.Words() + " → " + b.Words()
		}, equal)
	f.Default = func(s VMSpec) bool { return s.FirstBoot == VMFirstBoot{} }
	f.check = func(c *Checks, field string, s VMSpec) {
		if !f.Default(s) {
			s.FirstBoot.check(c, field)
		}
	}
	return f
}
