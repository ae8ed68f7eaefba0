package upgrade

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"quantix/agent/state"
)

// Limits of the steps after the old agent has stopped. The host is back within 60 s after a failed trial.
const (
	trialLimit     = 40 * time.Second
	trialExitLimit = 5 * time.Second // from the trial's success to its end
	probationLimit = 60 * time.Second
	maxStarts      = 3 // starts of the new program on probation
)

// trialResult is the line that a trial writes to trialFile when the portal has accepted its report.
type trialResult struct {
	Reported  bool   `json:"reported"`
	Connected bool   `json:"connected"` // to the hypervisor
	Error     string `json:"error,omitempty"`
}

// trialFile is the file descriptor that a trial writes its result to.
const trialFile = 3

// ReportTrial notifies the supervisor that the portal has accepted the trial's report. hypervisorError is the error of the
// hypervisor; empty: the agent is connected to it.
func ReportTrial(connected bool, hypervisorError string) error {
	f := os.NewFile(trialFile, "trial")
	if f == nil {
		return errors.New("this command is run by the agent during its upgrade only")
	}
	err := json.NewEncoder(f).Encode(trialResult{true, connected, hypervisorError})
	return errors.Join(err, f.Close())
}

// Supervise runs the trial that the record of the data directory names, and replaces this process: by the new program if
// the trial was successful, else by the old one. If ctx ends first, it ends the trial and returns nil; the next start
// of the agent then records that the upgrade was interrupted. Output of the trial goes to log.
func Supervise(ctx context.Context, dir string, log io.Writer) error {
	next, err := superviseTrial(ctx, dir, log, trialLimit)
	if err != nil || ctx.Err() != nil {
		return err
	}
	return execProgram(next.Binary, next.Args)
}

// superviseTrial does the work of Supervise up to the replacement of the process.
func superviseTrial(ctx context.Context, dir string, log io.Writer, limit time.Duration) (record, error) {
	rec, ok, err := readRecord(dir)
	if err == nil && !ok {
		err = errors.New("no upgrade of the agent is in progress")
	}
	if err != nil || rec.Phase != trial {
		return rec, err
	}
	why := runTrial(ctx, rec, log, limit)
	if ctx.Err() != nil {
		return rec, nil //nolint:nilerr // the agent was stopped: its next start finishes the upgrade
	}
	if why == "" {
		if err = putInPlace(dir, &rec); err == nil {
			return rec, nil
		}
		why = fmt.Sprintf("The new agent reported, but its program cannot be put into place: %s.", err)
	}
	fmt.Fprintf(log, "The upgrade to version %s failed: %s\n", rec.Version, why)
	os.Remove(rec.candidate()) // first, because the disk may be full
	rec.Phase, rec.Error = trial, why
	if err := rec.write(dir); err != nil {
		fmt.Fprintln(log, err) // the next start reports the upgrade as interrupted
	}
	return rec, nil
}

// runTrial runs the new program until it has reported, and returns why the trial failed, as a sentence; empty: it did
// not fail.
func runTrial(ctx context.Context, rec record, log io.Writer, limit time.Duration) string {
	if sum, err := hashFile(rec.candidate()); err != nil || sum != rec.SHA256 {
		return "The new program was changed or removed after its verification."
	}
	results, result, err := os.Pipe()
	if err != nil {
		return fmt.Sprintf("The trial cannot be started: %s.", err)
	}
	defer results.Close()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var output tail
	cmd := exec.CommandContext(ctx, rec.candidate(), trialArgs(rec.Args)...)
	inOwnGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = time.Second
	cmd.ExtraFiles = []*os.File{result}
	cmd.Stdout = log
	cmd.Stderr = io.MultiWriter(&output, log)
	runtime.LockOSThread() // the child ends with the thread that started it: see inOwnGroup
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	result.Close()
	if err != nil {
		return fmt.Sprintf("The new agent cannot be started: %s.", err)
	}
	got := make(chan trialResult, 1)
	go func() {
		var r trialResult
		line, err := bufio.NewReader(io.LimitReader(results, 64<<10)).ReadBytes('\n')
		if err == nil && json.Unmarshal(line, &r) == nil && r.Reported {
			time.AfterFunc(trialExitLimit, cancel)
		}
		got <- r
	}()
	ended := cmd.Wait()
	_ = killGroup(cmd) // what the new program started
	var r trialResult
	select {
	case r = <-got:
	case <-time.After(time.Second): // a child of the trial holds the pipe open
	}
	said := ""
	if text := lastLines(output.data); text != "" {
		said = " It wrote: " + text
	}
	switch {
	case r.Reported && ended != nil:
		return fmt.Sprintf("The new agent reported, but did not end its trial: %s.%s", ended, said)
	case r.Reported && rec.Connected && !r.Connected:
		return fmt.Sprintf("The new agent does not reach the hypervisor: %s", lastLines([]byte(r.Error)))
	case r.Reported:
		return ""
	case ctx.Err() != nil:
		return fmt.Sprintf("The new agent did not report to the portal within %s.%s", limit, said)
	case ended != nil:
		return fmt.Sprintf("The new agent ended before it reported to the portal: %s.%s", ended, said)
	}
	return fmt.Sprintf("The new agent ended without a report to the portal.%s", said)
}

// trialArgs returns the arguments of the trial for the agent's arguments, which begin with "agent".
func trialArgs(args []string) []string {
	if len(args) == 0 {
		return []string{"agent", TrialCommand}
	}
	return slices.Insert(slices.Clone(args), 1, TrialCommand)
}

// putInPlace replaces the program by the new one and keeps the old one. The record is written first: a start of the new
// program finds itself on probation, and a start of the old one finds that the new one is not in place.
func putInPlace(dir string, rec *record) error {
	rec.Phase = probation
	if err := rec.write(dir); err != nil {
		return err
	}
	link := rec.candidate() + previousSuffix
	os.Remove(link)
	if err := os.Link(rec.Binary, link); err != nil {
		return err
	}
	if err := os.Rename(link, rec.previous()); err != nil {
		return err
	}
	if err := os.Rename(rec.candidate(), rec.Binary); err != nil {
		return err
	}
	return state.SyncDir(filepath.Dir(rec.Binary))
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
