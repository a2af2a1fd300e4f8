package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"coalmine/internal/queue"
)

// nvidiaDriver is the directory with the description of NVIDIA's driver.
const nvidiaDriver = "/proc/driver/nvidia"

// queryPatience limits nvidia-smi, which takes seconds if no other process keeps the driver loaded.
const queryPatience = 30 * time.Second

// findGPUs lists the GPUs that this process may use: those of nvidia-smi, or otherwise those in a directory
// of the driver. CUDA_VISIBLE_DEVICES, if set, selects from them. If there is no GPU, the error gives the
// reason.
func findGPUs(ctx context.Context, driver string) ([]queue.Device, error) {
	found, err := queryGPUs(ctx)
	if err != nil {
		if found = listedGPUs(driver); len(found) == 0 {
			err = fmt.Errorf("%w, and %s lists no GPU", err, driver)
		} else {
			err = nil
		}
	}
	listed, set := os.LookupEnv(visibleDevices)
	if !set {
		return found, err
	}
	if found = chosenGPUs(listed, found); len(found) == 0 {
		return nil, fmt.Errorf("%s=%q selects no GPU", visibleDevices, listed)
	}
	return found, nil
}

// GPUs lists the NVIDIA GPUs that this process may use.
func GPUs(ctx context.Context) []queue.Device {
	found, _ := findGPUs(ctx, nvidiaDriver) // the error is the reason for an empty list
	return found
}

// queryGPUs returns the GPUs listed by nvidia-smi.
func queryGPUs(ctx context.Context) (found []queue.Device, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryPatience)
	defer cancel()
	output, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=uuid,name,memory.total,driver_version", "--format=csv,noheader,nounits").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("nvidia-smi is not in the PATH")
	}
	for line := range strings.Lines(string(output)) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if len(fields) != 4 {
			continue
		}
		mebibytes, _ := strconv.ParseInt(fields[2], 10, 64) // "[N/A]" if the GPU shares the machine's memory
		found = append(found, queue.Device{ID: fields[0], Name: fields[1], MemoryBytes: mebibytes << 20, Driver: fields[3]})
	}
	if err == nil && len(found) > 0 {
		return found, nil
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(output), []byte("\n"))
	if len(line) == 0 {
		line = []byte("no GPU")
	}
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi failed (%w) and printed %q", err, line)
	}
	return nil, fmt.Errorf("nvidia-smi printed %q", line)
}

// listedGPUs returns the GPUs in the driver's directory, whose files do not state the memory.
func listedGPUs(driver string) (found []queue.Device) {
	files, _ := filepath.Glob(filepath.Join(driver, "gpus", "*", "information")) // the pattern is valid
	version := driverVersion(filepath.Join(driver, "version"))
	for i, path := range files {
		d := queue.Device{ID: strconv.Itoa(i), Driver: version}
		text, _ := os.ReadFile(path) // the number suffices
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); name {
			case "Model":
				d.Name = value
			case "GPU UUID":
				if !strings.Contains(value, "?") { // unknown before its first use
					d.ID = value
				}
			}
		}
		found = append(found, d)
	}
	return found
}

// driverVersion reads the version in a line such as
// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023".
func driverVersion(path string) string {
	text, _ := os.ReadFile(path) // "" is unknown
	_, after, _ := strings.Cut(string(text), "Kernel Module")
	for _, word := range strings.Fields(after) {
		if strings.Contains(word, ".") {
			return word
		}
	}
	return ""
}

// chosenGPUs returns the GPUs in a value of CUDA_VISIBLE_DEVICES, by number or by a prefix of the id. An
// unknown name, such as that of a part of a GPU (MIG), is kept unchanged; -1 ends the list.
func chosenGPUs(listed string, found []queue.Device) (chosen []queue.Device) {
	for _, name := range strings.FieldsFunc(listed, func(r rune) bool { return r == ',' || r == ' ' }) {
		if name == "-1" {
			break
		}
		d := queue.Device{ID: name}
		number, err := strconv.Atoi(name)
		at := slices.IndexFunc(found, func(f queue.Device) bool { return strings.HasPrefix(f.ID, name) })
		if err == nil {
			at = number
		}
		if at >= 0 && at < len(found) {
			d = found[at]
			d.ID = name
		}
		chosen = append(chosen, d)
	}
	return chosen
}
