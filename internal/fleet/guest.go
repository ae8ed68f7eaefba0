package fleet

import (
	"regexp"
	"time"
	"unicode/utf8"
)

// GuestAgent is how the agent in a guest (qemu-guest-agent) answers its host.
type GuestAgent string

const (
	AgentNone          GuestAgent = "none"    // the guest that runs has no channel for it
	AgentNotResponding GuestAgent = "silent"  // it has one, on which nobody answers
	AgentAnswers       GuestAgent = "answers" // it answers
)

// GuestStatus is what a running guest says of itself that does not change from one look to the next. A guest is not to be believed: it is what
// the guest says, cut to a length and rid of what no screen shows.
type GuestStatus struct {
	Agent    GuestAgent `json:"agent"`
	Version  string     `json:"version,omitempty"` // of the agent
	OS       string     `json:"os,omitempty"`      // "Debian GNU/Linux 12 (bookworm)"
	Kernel   string     `json:"kernel,omitempty"`  // its release
	Hostname string     `json:"hostname,omitempty"`
	Frozen   bool       `json:"frozen,omitempty"` // nothing writes to its file systems until they are thawed
}

// Bounds of what a guest is listened to for.
const (
	MaxGuestFileSystems = 64
	MaxGuestUsers       = 64
	MaxGuestText        = 255 // bytes of a name
)

// GuestReading is what a guest said last that changes by itself. It is no state: it comes with loads, and is as old as it says.
type GuestReading struct {
	ID          VMID              `json:"id"`
	AgoMs       int64             `json:"agoMs"` // how long before it was sent the guest was asked
	FileSystems []GuestFileSystem `json:"fileSystems,omitempty"`
	Users       []GuestUser       `json:"users,omitempty"` // who is signed in
	ClockMs     int64             `json:"clockMs"`         // how far the guest's clock is from the host's
	ClockBehind bool              `json:"clockBehind,omitempty"`
}

// GuestFileSystem is one that is mounted in a guest.
type GuestFileSystem struct {
	Path       string `json:"path"`
	Type       string `json:"type"`
	UsedBytes  int64  `json:"usedBytes"`
	TotalBytes int64  `json:"totalBytes"` // 0: the guest's agent does not tell
}

// GuestUser is somebody who is signed in to a guest.
type GuestUser struct {
	Name   string `json:"name"`
	Domain string `json:"domain,omitempty"` // of a Windows guest
}

// GuestView is what is known of a guest, and since when.
type GuestView struct {
	At *time.Time `json:"at"` // when the guest was asked; nil: it has said nothing yet
	GuestReading
}

// GuestOrder is what an order to a guest's agent says. A password is no part of it, nor are a program's arguments: see wire.GuestSecret.
type GuestOrder struct {
	Seconds int    `json:"seconds,omitempty"` // vm.freeze: after how many the host thaws it by itself; vm.exec: that it waits for the program
	User    string `json:"user,omitempty"`    // vm.password
	Program string `json:"program,omitempty"` // vm.exec; its arguments are no part of it
}

// Bounds of orders to guests.
const (
	MinFreeze     = 1 // seconds
	MaxFreeze     = 600
	UsualFreeze   = 60
	MaxGuestWords = 128 // bytes of a password
)

// guestUserForm is what Linux and Windows take; nothing that could be read as an option.
var guestUserForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}\$?$`)

// CheckFreeze notes at field where nothing is frozen for so long.
func CheckFreeze(c *Checks, field string, seconds int) {
	if seconds < MinFreeze || seconds > MaxFreeze {
		c.Add(field, "Freeze for %d to %d seconds.", MinFreeze, MaxFreeze)
	}
}

// CheckGuestUser notes at field where name is no user's name in a guest.
func CheckGuestUser(c *Checks, field, name string) {
	if !guestUserForm.MatchString(name) {
		c.Add(field, "The name of a user in the guest has 1–64 letters, digits and . _ -, and starts with a letter or _.")
	}
}

// CheckGuestPassword notes at field where a guest cannot be given the password. What is wrong with it is said without it.
func CheckGuestPassword(c *Checks, field, password string) {
	switch {
	case password == "":
		c.Add(field, "Give a password.")
	case len(password) > MaxGuestWords || !utf8.ValidString(password) || !plain(password):
		c.Add(field, "A password is one line of at most %d bytes.", MaxGuestWords)
	}
}
