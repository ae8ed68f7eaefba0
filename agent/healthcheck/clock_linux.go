package healthcheck

import "golang.org/x/sys/unix"

// kernelClockSynchronized reports whether a time service keeps the kernel's clock synchronized.
func kernelClockSynchronized() (bool, error) {
	var state unix.Timex // Modes 0: read only
	_, err := unix.Adjtimex(&state)
	return state.Status&unix.STA_UNSYNC == 0, err
}
