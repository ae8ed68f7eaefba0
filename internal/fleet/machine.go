package fleet

import "fmt"

// MachinePC is the i440fx machine type, without PCI Express, whose IDE disks old guests support.
const MachinePC = "pc"

// maxIDE is the number of devices on the two IDE channels of MachinePC.
const maxIDE = 4

// checkMachine adds an error for each device that the VM's machine type lacks.
func (s VMSpec) checkMachine(c *Checks, prefix string) {
	if s.Boot.Machine == MachinePC {
		s.checkMachinePC(c, prefix)
		return
	}
	for i, d := range s.Disks {
		if d.Bus == "ide" {
			c.Add(fmt.Sprintf("%s.disks[%d].bus", prefix, i), "Only the machine pc has IDE. Choose that machine when you create the VM, or another bus, such as SATA.")
		}
	}
}

func (s VMSpec) checkMachinePC(c *Checks, prefix string) {
	if s.Firmware == UEFI {
		c.Add(prefix+".firmware", "A pc machine needs BIOS. Choose BIOS, or the machine q35.")
	}
	if s.Security.SecureBoot {
		c.Add(prefix+".security.secureBoot", "A pc machine cannot protect the Secure Boot keys from its guest. Choose the machine q35, or disable Secure Boot.")
	}
	if s.Security.Confidential != "" {
		c.Add(prefix+".security.confidential", "Memory encryption needs the machine q35. Choose q35, or disable the encryption.")
	}
	if s.Devices.Watchdog == "itco" {
		c.Add(prefix+".devices.watchdog", "Only the machine q35 has the iTCO watchdog. Choose that machine, or another watchdog.")
	}
	places := 1 // number of IDE devices; the first CD-ROM drive is always one
	for i, d := range s.Drives {
		if !d.IsFloppy() {
			if places++; places > maxIDE {
				c.Add(fmt.Sprintf("%s.drives[%d].slot", prefix, i), "A pc machine supports %d IDE devices, including the CD-ROM drives.", maxIDE)
			}
		}
	}
	for i, d := range s.Disks {
		at := fmt.Sprintf("%s.disks[%d].bus", prefix, i)
		switch d.Bus {
		case "ide":
			if places++; places > maxIDE {
				c.Add(at, "A pc machine supports %d IDE devices, including the CD-ROM drives. Choose another bus, such as SATA.", maxIDE)
			}
		case "nvme":
			c.Add(at, "NVMe needs PCI Express, which a pc machine lacks. Choose another bus.")
		}
	}
}
