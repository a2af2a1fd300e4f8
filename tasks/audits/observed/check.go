package observed

import "coalmine/tasks/audits"

// CheckRecorded reports a training that records nothing, or not the layers that the audit at
// a path looks at.
func CheckRecorded(s *audits.Setting, path string, layers []string, fail audits.Fail) {
	if s.Recorded == nil {
		fail([]string{path, "training.record", "training.record.layers", "training.record.rounds", "training.record.every"}, "reads the updates that devices send, and training.record is absent; expected training.record: {}, or some of its layers")
		return
	}
	if _, err := s.Recorded.Layout.Spans(layers...); err != nil {
		fail([]string{path + ".layers", "training.record.layers"}, "names layers that training.record does not keep: %v", err)
	}
}

// CheckDevices reports users who are not divided into devices.
func CheckDevices(s *audits.Setting, path string, fail audits.Fail) {
	if s.Devices == nil {
		fail([]string{path, "data.devices"}, "learns from the updates of shadow devices, and data.devices is absent; expected data.devices: {}, which gives every user one")
	}
}
