package fleet

// What a VM has besides its size, disks and cards. The zero value of each is what a new VM gets on its host.

// VMCPU is what the guest's processors are like.
type VMCPU struct {
	Model   string `json:"model,omitempty"` // host-passthrough, host-model, maximum, or a name that libvirt knows; empty: the best that the host can give
	Sockets int    `json:"sockets,omitempty"`
	Cores   int    `json:"cores,omitempty"`   // a socket
	Threads int    `json:"threads,omitempty"` // a core
	Max     int    `json:"max,omitempty"`     // vCPUs that the running guest can get; 0: no more than it has

	Features string `json:"features,omitempty"` // besides the model's: "+aes -vmx"; empty: those of the model
	Shares   int    `json:"shares,omitempty"`   // its part of the host's processors where there are too few, beside others' 1024; 0: 1024
	Limit    int    `json:"limit,omitempty"`    // how much of a processor each vCPU may have, percent; 0: all
	Reserved int    `json:"reserved,omitempty"` // how much of a processor is kept for each vCPU where it is placed, percent; 0: none
	Pinned   string `json:"pinned,omitempty"`   // the host's processors that its vCPUs run on: "0-3,6"; empty: any
}

// VMMemory is where the guest's memory comes from.
type VMMemory struct {
	Shared      bool `json:"shared,omitempty"`      // with other programs of the host, as virtiofs and vhost-user need it
	Locked      bool `json:"locked,omitempty"`      // the host never swaps it out
	HugePageKiB int  `json:"hugePageKiB,omitempty"` // of pages of this size; 0: of usual ones
	MaxMiB      int  `json:"maxMiB,omitempty"`      // that the running guest can get; 0: no more than it has

	BalloonMiB int `json:"balloonMiB,omitempty"` // of it, how much the guest may use at present; 0: all

	MinMiB int `json:"floorMiB,omitempty"` // of that, what its host leaves it where the host is short of memory; 0: all

	Nodes string `json:"nodes,omitempty"` // the host's NUMA nodes that it comes from: "0-1"; empty: any
}

// VMBoot is how the guest comes up.
type VMBoot struct {
	Menu  bool `json:"menu,omitempty"`  // the firmware offers its devices for some seconds
	CDROM int  `json:"cdrom,omitempty"` // the drive's place among those that are tried by number; 0: not by number

	Machine string `json:"machine,omitempty"` // that the host emulates: see Machines; empty: q35

	Kernel  *Volref `json:"kernel,omitempty"` // started in place of what is on the disks
	Initrd  *Volref `json:"initrd,omitempty"`
	Cmdline string  `json:"cmdline,omitempty"` // of the kernel
}

// VMDisplay is what a person at the console has.
type VMDisplay struct {
	Video    string `json:"video,omitempty"`    // the graphics card: see VideoModels; empty: vga
	Heads    int    `json:"heads,omitempty"`    // screens of a card that can have several; 0: one
	Keyboard string `json:"keyboard,omitempty"` // the layout that key presses are made for: see Keyboards; empty: those of the keys themselves
	Pointer  string `json:"pointer,omitempty"`  // tablet or mouse; empty: tablet
	Sound    string `json:"sound,omitempty"`    // the sound card: see SoundModels; empty: none

	Spice          bool `json:"spice,omitempty"`          // a SPICE server beside the console, on a socket of the host
	USBRedirection int  `json:"usbRedirection,omitempty"` // how many devices of the viewer's machine the guest can have through it
}

// VMSecurity is what guards the guest's secrets.
type VMSecurity struct {
	TPM        bool `json:"tpm,omitempty"`        // a TPM 2.0 that the host emulates; its state lies on the host
	SecureBoot bool `json:"secureBoot,omitempty"` // UEFI starts only what is signed; with its own variables, of the host's template

	Confidential string `json:"confidential,omitempty"` // by which its memory is kept from the host: see ConfidentialKinds; empty: it is not
}

// VMDevices are small devices of which a VM has one at most.
type VMDevices struct {
	Watchdog       string `json:"watchdog,omitempty"`       // its model: see Watchdogs; empty: none
	WatchdogAction string `json:"watchdogAction,omitempty"` // what happens when the guest no longer feeds it: see WatchdogActions; empty: reset
	RNGRate        int    `json:"rngRate,omitempty"`        // random numbers from the host, bytes a second; 0: as many as the guest asks for
	VSOCK          bool   `json:"vsock,omitempty"`          // a socket between the guest and its host alone
	GuestAgent     string `json:"guestAgent,omitempty"`     // the channel that the guest's agent listens on: see GuestAgents; empty: virtio-serial

	Balloon  string `json:"balloon,omitempty"`  // see Balloons; empty: one
	Serials  int    `json:"serials,omitempty"`  // serial ports beside the console's
	Parallel bool   `json:"parallel,omitempty"` // a parallel port
}

// VMMigration is how the VM's disks and the VM itself go elsewhere.
type VMMigration struct {
	Stays    bool `json:"stays,omitempty"`    // it goes to no other host
	LimitMiB int  `json:"limitMiB,omitempty"` // a second, of what goes to another pool or host; 0: as fast as can be

	// Kept for moves of guests that run.
	PostCopy   bool `json:"postCopy,omitempty"`   // the guest goes on before all of its memory is there
	DowntimeMs int  `json:"downtimeMs,omitempty"` // how long it may stand still at the end; 0: as QEMU does
}

// Rate is how fast something of the VM moves that is asked to at rate, bytes a second; 0: as fast as can be.
func (m VMMigration) Rate(rate int64) int64 {
	if most := int64(m.LimitMiB) << 20; most > 0 && (rate == 0 || rate > most) {
		return most
	}
	return rate
}

// VMPolicy is what a host does with the VM by itself, portal or not. It is kept in the VM's definition there.
type VMPolicy struct {
	Autostart  string `json:"autostart,omitempty"`  // what becomes of it when its host comes up: see Autostarts; empty: it stays off
	StartOrder int    `json:"startOrder,omitempty"` // then: 1 before 2, and those with a number before those with 0
	StartDelay int    `json:"startDelay,omitempty"` // then: seconds that the host waits after it before it starts the next
	Restart    string `json:"restart,omitempty"`    // what becomes of it when it goes off by itself: see Restarts; empty: it stays off
	StopOrder  int    `json:"stopOrder,omitempty"`  // when many are shut down: 1 before 2; 0: the reverse of the start order
	StopDelay  int    `json:"stopDelay,omitempty"`  // then: seconds after it is off before the next ones are asked
	HAPriority string `json:"haPriority,omitempty"` // kept for when its host fails: see HAPriorities; empty: normal
	GuestExec  bool   `json:"guestExec,omitempty"`  // programs may be run in its guest, by people who may change the VM and by its health checks
}
