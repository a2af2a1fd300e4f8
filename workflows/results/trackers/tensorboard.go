package trackers

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"path"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
)

// An event file of TensorBoard is a file of TensorFlow's records (tensorflow/core/lib/io/record_writer.h). Each
// record is an Event (event.proto) in the wire format of protocol buffers. The first holds the version of the file.
// The second and third are summaries of the plugin hparams (plugin_data.proto): the parameters, and the end of the
// cell. An event for each step follows, ascending, with its scalars in float32.

// Fields of the messages.
const (
	eventWallTime    = 1 // Event
	eventStep        = 2
	eventFileVersion = 3
	eventSummary     = 5

	summaryValue = 1 // Summary

	valueTag      = 1 // Summary.Value
	valueSimple   = 2
	valueTensor   = 8
	valueMetadata = 9

	metadataPlugin = 1 // SummaryMetadata
	metadataClass  = 4
	pluginName     = 1 // SummaryMetadata.PluginData
	pluginContent  = 2

	tensorType      = 1 // TensorProto
	tensorShape     = 2
	shapeDimension  = 2 // TensorShapeProto
	dimensionSize   = 1 // TensorShapeProto.Dim
	tensorFloats    = 5
	typeFloat       = 1 // DataType
	dataClassTensor = 2 // DataClass

	hparamsStart = 3 // HParamsPluginData
	hparamsEnd   = 4
	startHparams = 1 // SessionStartInfo
	startGroup   = 4
	startTime    = 5
	endStatus    = 1 // SessionEndInfo
	endTime      = 2
	mapKey       = 1 // of any map
	mapValue     = 2
	jsonNumber   = 2 // google.protobuf.Value
	jsonString   = 3
	jsonBool     = 4
)

// Status of a session of hparams (api.proto).
const (
	hparamsUnknown = 0
	hparamsSuccess = 1
	hparamsFailure = 2
	hparamsRunning = 3
)

var hparamsStatus = map[string]uint64{
	results.Done: hparamsSuccess, results.Failed: hparamsFailure, results.Cancelled: hparamsUnknown, results.Pending: hparamsRunning,
}

// tensorBoardRun returns the event file of a cell, in a separate folder.
func tensorBoardRun(run *Run, c *Cell) []file {
	seconds := float64(run.milliseconds()) / 1000
	var out []byte
	out = appendRecord(out, event(seconds, 0).text(eventFileVersion, "brain.Event:2"))
	for _, summary := range []message{
		hparams("_hparams_/session_start_info", hparamsStart, startInfo(c, seconds)),
		hparams("_hparams_/session_end_info", hparamsEnd, message{}.number(endStatus, hparamsStatus[c.Status]).double(endTime, seconds)),
	} {
		out = appendRecord(out, event(seconds, 0).bytes(eventSummary, summary))
	}
	for _, step := range steps(c.Series) {
		out = appendRecord(out, event(seconds, step).bytes(eventSummary, scalars(c.Series, step)))
	}
	name := fmt.Sprintf("events.out.tfevents.%010d.coalmine", run.milliseconds()/1000)
	return []file{{path.Join(c.Name, name), out}}
}

// steps returns the steps of all series, ascending.
func steps(list []Series) (all []int64) {
	for _, s := range list {
		for _, p := range s.Points {
			all = append(all, p.Step)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// scalars returns the Summary of the series after a step.
func scalars(list []Series, step int64) (summary message) {
	for _, s := range list {
		i, there := slices.BinarySearchFunc(s.Points, step, func(p Point, step int64) int { return int(p.Step - step) })
		if there {
			summary = summary.bytes(summaryValue, message{}.text(valueTag, s.Name).float(valueSimple, float32(s.Points[i].Value)))
		}
	}
	return summary
}

// event returns an Event without its content.
func event(seconds float64, step int64) message {
	return message{}.double(eventWallTime, seconds).number(eventStep, uint64(step))
}

// hparams returns the Summary with one of the plugin's messages and a tensor of a single zero.
func hparams(tag string, field protowire.Number, content message) message {
	const version = 0 // of HParamsPluginData; omitted, like all zeros
	plugin := message{}.text(pluginName, "hparams").bytes(pluginContent, message{}.number(1, version).bytes(field, content))
	metadata := message{}.bytes(metadataPlugin, plugin).number(metadataClass, dataClassTensor)
	shape := message{}.bytes(shapeDimension, message{}.number(dimensionSize, 1))
	tensor := message{}.number(tensorType, typeFloat).bytes(tensorShape, shape).bytes(tensorFloats, message{0, 0, 0, 0})
	return message{}.bytes(summaryValue, message{}.text(valueTag, tag).bytes(valueTensor, tensor).bytes(valueMetadata, metadata))
}

// startInfo returns the SessionStartInfo of a cell: its parameters.
func startInfo(c *Cell, seconds float64) (info message) {
	for _, p := range c.Params {
		entry := message{}.text(mapKey, p.Path).bytes(mapValue, jsonValue(p))
		info = info.bytes(startHparams, entry)
	}
	return info.text(startGroup, c.Name).double(startTime, seconds)
}

// jsonValue returns a google.protobuf.Value. The plugin accepts only texts, numbers and bools, so lists and
// null become texts.
func jsonValue(p experiment.Axis) message {
	var value any
	if json.Unmarshal(p.Value, &value) != nil {
		value = nil
	}
	switch v := value.(type) {
	case float64:
		return message{}.double(jsonNumber, v)
	case bool:
		return message{}.number(jsonBool, protowire.EncodeBool(v))
	default:
		return message{}.text(jsonString, p.Text())
	}
}

// message is a message in the wire format.
type message []byte

func (m message) number(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m message) double(field protowire.Number, v float64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), math.Float64bits(v))
}

func (m message) float(field protowire.Number, v float32) message {
	return protowire.AppendFixed32(protowire.AppendTag(m, field, protowire.Fixed32Type), math.Float32bits(v))
}

func (m message) bytes(field protowire.Number, v []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), v)
}

func (m message) text(field protowire.Number, v string) message { return m.bytes(field, []byte(v)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord appends a record: the length, the checksum of the length, the data, and the checksum of
// the data.
func appendRecord(out, data []byte) []byte {
	start := len(out)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, masked(out[start:]))
	out = append(out, data...)
	return binary.LittleEndian.AppendUint32(out, masked(data))
}

// masked returns the CRC-32C of data, rotated and shifted as in TensorFlow's records.
func masked(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}
