package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Processes returns the current process IDs of a program to measure. Its usage can be read only on Linux.
type Processes func() []int

// SingleProcess returns Processes with this single process ID.
func SingleProcess(pid int) Processes { return func() []int { return []int{pid} } }

func thisProcess() Processes { return SingleProcess(os.Getpid()) }

// ProcessTree returns a process and all its descendants, such as PostgreSQL's postmaster and its backends.
func ProcessTree(pid int) Processes {
	return func() []int {
		children := map[int][]int{}
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range stats {
			if s, ok := readProcStat(path); ok {
				children[s.parent] = append(children[s.parent], s.pid)
			}
		}
		out := []int{pid}
		for i := 0; i < len(out); i++ {
			out = append(out, children[out[i]]...)
		}
		return out
	}
}

// PostgresPID returns the process ID of the postmaster that a portal has started, or 0.
func PostgresPID(portal int) int {
	for _, pid := range ProcessTree(portal)() {
		if s, ok := readProcStat(fmt.Sprintf("/proc/%d/stat", pid)); ok && pid != portal && strings.HasPrefix(s.name, "postgres") {
			return pid
		}
	}
	return 0
}

// cpuAndMemory holds the CPU time that processes have used so far, and their memory.
type cpuAndMemory struct {
	known bool
	cpu   time.Duration
	bytes int64
}

// ProcessUsage is the resource usage of processes: CPU in cores, and memory.
type ProcessUsage struct {
	Cores float64 `json:"cores"`
	RSS   int64   `json:"rss"` // bytes at the end; memory shared by several processes counts once
}

func (u ProcessUsage) String() string { return fmt.Sprintf("%.2f core, %d MB", u.Cores, u.RSS>>20) }

// CPU returns the processor time that the processes have used so far.
func (p Processes) CPU() time.Duration { return p.usage().cpu }

func (p Processes) usage() (u cpuAndMemory) {
	if p == nil {
		return u
	}
	all := p()
	for i, pid := range all {
		s, ok := readProcStat(fmt.Sprintf("/proc/%d/stat", pid))
		if !ok {
			continue
		}
		u.known = true
		u.cpu += s.cpu
		if i == 0 {
			u.cpu += s.reaped // CPU time of child processes that have exited
		}
		if len(all) == 1 {
			u.bytes += procField(pid, "status", "VmRSS:")
		} else {
			u.bytes += procField(pid, "smaps_rollup", "Pss:")
		}
	}
	return u
}

func (u cpuAndMemory) since(before cpuAndMemory, over time.Duration) *ProcessUsage {
	if !u.known || over <= 0 {
		return nil
	}
	return &ProcessUsage{Cores: max(0, (u.cpu-before.cpu).Seconds()/over.Seconds()), RSS: u.bytes}
}

type procStat struct {
	pid, parent int
	name        string
	cpu, reaped time.Duration
}

// readProcStat reads /proc/<pid>/stat. The times in it are in clock ticks, which are 10 ms on every Linux.
func readProcStat(path string) (s procStat, ok bool) {
	text, err := os.ReadFile(path)
	open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if err != nil || open < 0 || shut < open {
		return s, false
	}
	fields := strings.Fields(string(text[shut+1:]))
	if len(fields) < 15 {
		return s, false
	}
	n := func(i int) int { v, _ := strconv.Atoi(fields[i]); return v }
	ticks := func(i, j int) time.Duration { return time.Duration(n(i)+n(j)) * 10 * time.Millisecond }
	s.pid, _ = strconv.Atoi(strings.TrimSpace(string(text[:open])))
	s.name, s.parent, s.cpu, s.reaped = string(text[open+1:shut]), n(1), ticks(11, 12), ticks(13, 14)
	return s, true
}

// procField returns one value of a file below /proc/<pid>, in bytes.
func procField(pid int, file, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
