package fleet

import "cmp"

// Groups of optional fields of a VM, in addition to its size, disks and NICs. The zero value of each field is the
// default.

// VMCPU configures the guest's processors.
type VMCPU struct {
	// Model: host-passthrough, host-model, maximum, or a libvirt model name; empty: the best that the host supports
	Model   string `json:"model,omitempty"`
	Sockets int    `json:"sockets,omitempty"`
	Cores   int    `json:"cores,omitempty"`   // per socket
	Threads int    `json:"threads,omitempty"` // per core
	Max     int    `json:"max,omitempty"`     // maximum vCPUs that the running guest can reach; 0: no hot-plug

	Features string `json:"features,omitempty"` // features added to or removed from the model: "+aes -vmx"; empty: the model's own features
	Shares   int    `json:"shares,omitempty"`   // CPU weight under contention, relative to the default of 1024; 0: 1024
	Limit    int    `json:"limit,omitempty"`    // maximum share of a processor per vCPU, percent; 0: unlimited
	Reserved int    `json:"reserved,omitempty"` // share of a processor reserved per vCPU on the VM's host, percent; 0: none
	Pinned   string `json:"pinned,omitempty"`   // host processors that run the vCPUs: "0-3,6"; empty: any
}

// VMMemory configures the backing and the limits of the guest's memory.
type VMMemory struct {
	// Shared: other processes on the host can access the memory, as virtiofs and vhost-user require
	Shared      bool `json:"shared,omitempty"`
	Locked      bool `json:"locked,omitempty"`      // the host never swaps it out
	HugePageKiB int  `json:"hugePageKiB,omitempty"` // page size of the backing huge pages; 0: normal pages
	MaxMiB      int  `json:"maxMiB,omitempty"`      // maximum memory that the running guest can reach; 0: no hot-plug

	BalloonMiB int `json:"balloonMiB,omitempty"` // memory that the balloon leaves to the guest at present; 0: all memory

	// MinMiB: guaranteed minimum of memory. While the host is short of memory, the balloon shrinks the guest's memory
	// down to it. 0: none
	MinMiB int `json:"minMiB,omitempty"`

	Nodes string `json:"nodes,omitempty"` // host NUMA nodes that provide the memory: "0-1"; empty: any
}

// VMBoot configures how the guest boots.
type VMBoot struct {
	Menu  bool `json:"menu,omitempty"`  // the firmware shows its boot menu for some seconds
	CDROM int  `json:"cdrom,omitempty"` // boot order of the first CD-ROM drive; 0: no explicit order

	Machine string `json:"machine,omitempty"` // emulated machine: see Machines; empty: q35

	Kernel  *Volref `json:"kernel,omitempty"` // booted directly, instead of the disks' boot loader
	Initrd  *Volref `json:"initrd,omitempty"`
	Cmdline string  `json:"cmdline,omitempty"` // kernel command line
}

// VMDisplay configures the console's display and input.
type VMDisplay struct {
	Video    string `json:"video,omitempty"`    // video device: see VideoModels; empty: vga
	Heads    int    `json:"heads,omitempty"`    // screens of a video device that supports several; 0: one
	Keyboard string `json:"keyboard,omitempty"` // keyboard layout for key presses: see Keyboards; empty: raw key codes
	Pointer  string `json:"pointer,omitempty"`  // tablet or mouse; empty: tablet
	Sound    string `json:"sound,omitempty"`    // sound device: see SoundModels; empty: none

	Spice bool `json:"spice,omitempty"` // SPICE server beside the console, on a socket of the host
	// USBRedirection: maximum number of the viewer's USB devices that SPICE can redirect to the guest
	USBRedirection int `json:"usbRedirection,omitempty"`
}

// VMSecurity configures devices and modes that protect the guest's secrets.
type VMSecurity struct {
	TPM bool `json:"tpm,omitempty"` // emulated TPM 2.0; its state is stored on the host
	// SecureBoot: UEFI boots only signed code, and the UEFI variable store is created from the host's secure-boot template
	SecureBoot bool `json:"secureBoot,omitempty"`

	// Confidential: memory encryption against the host: see ConfidentialKinds; empty: none
	Confidential string `json:"confidential,omitempty"`
}

// VMDevices configures small devices, such as the watchdog and the balloon.
type VMDevices struct {
	Watchdog string `json:"watchdog,omitempty"` // watchdog model: see Watchdogs; empty: none
	// WatchdogAction: action after a watchdog timeout: see WatchdogActions; empty: reset
	WatchdogAction string `json:"watchdogAction,omitempty"`
	// RNGRate: limit of random numbers from the host, bytes per second; 0: unlimited
	RNGRate int  `json:"rngRate,omitempty"`
	VSOCK   bool `json:"vsock,omitempty"` // socket between the guest and its host
	// GuestAgentState: channel of the guest agent: see GuestAgents; empty: virtio-serial
	GuestAgent string `json:"guestAgent,omitempty"`

	Balloon  string `json:"balloon,omitempty"` // see Balloons; empty: on
	Serials  int    `json:"serials,omitempty"` // serial ports in addition to the console's port
	Parallel bool   `json:"parallel,omitempty"`
}

// VMMigration configures disk migration and VM migration.
type VMMigration struct {
	Stays bool `json:"stays,omitempty"` // the VM never migrates to another host
	// LimitMiB: bandwidth limit of migrations to another pool or host, MiB per second; 0: unlimited
	LimitMiB int `json:"limitMiB,omitempty"`

	// Only for live migrations.
	PostCopy   bool `json:"postCopy,omitempty"`   // the guest resumes on the target before all of its memory has arrived
	DowntimeMs int  `json:"downtimeMs,omitempty"` // maximum pause at switchover, milliseconds; 0: QEMU's default
}

// EffectiveRate returns the effective rate of a migration, in bytes per second: the lower of rate and the VM's limit. 0:
// unlimited.
func (m VMMigration) EffectiveRate(rate int64) int64 {
	if most := int64(m.LimitMiB) << 20; most > 0 && (rate == 0 || rate > most) {
		return most
	}
	return rate
}

// EffectiveOptions returns the effective options of a live migration: those of the request, and else the VM's.
func (m VMMigration) EffectiveOptions(o MigrationOptions) MigrationOptions {
	o.PostCopy, o.MaxDowntime = o.PostCopy || m.PostCopy, cmp.Or(o.MaxDowntime, m.DowntimeMs)
	return o
}

// VMPolicy lists actions on the VM that its host performs without the portal. It is stored in the domain's definition
// on the host.
type VMPolicy struct {
	Autostart string `json:"autostart,omitempty"` // action when the host boots: see Autostarts; empty: the VM stays off
	// StartOrder: position among automatic starts: VMs with 1 before VMs with 2, and numbered VMs before VMs with 0
	StartOrder int `json:"startOrder,omitempty"`
	StartDelay int `json:"startDelay,omitempty"` // seconds that the host waits after this start before the next one
	// Restart: action when the VM stops without a request: see Restarts; empty: it stays off
	Restart string `json:"restart,omitempty"`
	// StopOrder: position when several VMs are shut down: VMs with 1 before VMs with 2; 0: in the reverse of the start
	// order
	StopOrder int `json:"stopOrder,omitempty"`
	// StopDelay: seconds to wait after this VM's power-off before the shutdown of later VMs
	StopDelay  int    `json:"stopDelay,omitempty"`
	HAPriority string `json:"haPriority,omitempty"` // stored for host failover: see HAPriorities; empty: normal
	// GuestExec: the VM's health checks and users who may change the VM may run programs in the guest
	GuestExec bool `json:"guestExec,omitempty"`
}
