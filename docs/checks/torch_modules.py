"""The exported models of LSTMs and unprojected GRUs as modules of PyTorch (docs/model.md, In PyTorch):

    python3 docs/checks/torch_modules.py        # beside a model.safetensors of coalmine export
"""

import json, torch
from check_export import Model

model = Model("model.safetensors")  # an lstm or an unprojected gru
lstm, inputs = model.kind == "lstm", model.tensors["embedding"].shape[1]
width = model.tensor("cell.recurrent", 0).shape[0]
projected = {"proj_size": width} if model.tensor("projection", 0) is not None else {}
module = (torch.nn.LSTM if lstm else torch.nn.GRU)(inputs, model.units, model.layers, dtype=torch.float64, **projected)
with torch.no_grad():
    for i in range(model.layers):
        getattr(module, f"weight_ih_l{i}").copy_(model.tensor("cell.input", i).T)
        getattr(module, f"weight_hh_l{i}").copy_(model.tensor("cell.recurrent", i).T)
        getattr(module, f"bias_ih_l{i}").copy_(model.tensor("cell.bias", i))
        getattr(module, f"bias_hh_l{i}").zero_()
        if not lstm:
            getattr(module, f"bias_hh_l{i}")[2 * model.units:] = model.tensor("cell.candidate_bias", i)
        if projected:
            getattr(module, f"weight_hr_l{i}").copy_(model.tensor("projection", i).T)
    sentence = [2] + list(range(4, 12))
    outputs, _ = module(model.tensors["embedding"][sentence])
    states = model.start(1)
    for token, output in zip(sentence, outputs):
        states = model.step(states, [token])
        assert torch.allclose(states[-1][1][0], output, rtol=1e-12, atol=1e-12)
